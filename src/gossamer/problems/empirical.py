"""Empirical risk: losses that are means over samples, of any JAX function over a pytree of parameters."""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gossamer.basics.arrays import numbers
from gossamer.basics.pytrees import pytree
from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError, Range, brief, call_own, check_function, flag
from gossamer.data import Dataset, load
from gossamer.data import split as split_rows
from gossamer.data.dataset import standardise, warn_of_uneven
from gossamer.data.splits import holder_names
from gossamer.problems.inputs import Bits, Rows, hold, in_runs, rows_from, take
from gossamer.problems.problem import Problem

WIDENED = 2**16
"""Numbers that are converted to floats at once when all rows are used: as many as stay in the cache. On a9a, F and ∇F
take a quarter of the time of converting all rows first, at 2¹⁴ to 2¹⁸ alike, and half at 2²⁰."""

RUN = 64
"""Rows that are summed one after the other. A sum of 64 equal numbers in float32 is off by 2e-6 at most, and one of the
numbers of a9a by 4e-7."""

SINGLE_GRADIENTS = 2**14
"""Numbers of single samples' gradients that an agent holds at once."""


class Model(NamedTuple):
    """The functions of a model; `params` is the pytree that the user gave."""

    unravel: Callable[[Array], Any]
    """Turns the flat vector into a pytree of parameters."""
    loss: Callable[[Any, Array, Array], Array]
    """``loss(params, inputs, targets)``: one loss for each sample of a batch; inputs have the dtype of params."""
    penalty: Callable[[Any], Array] | None = None
    """``penalty(params)``: added to every f_i, times ``alpha``."""
    predict: Callable[[Any, Array], Array] | None = None
    """``predict(params, inputs)``: a target for each sample."""
    smoothness: Callable[["Empirical"], np.ndarray] | None = None
    """L_i for each agent."""
    linear: bool = False
    """True if loss and predict use only the shape of inputs and ``inputs @ x``, so that they need no array."""
    numbers: int = 0
    """The largest number of activations of a layer for a sample, if it exceeds the size of the sample."""


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Empirical(Problem):
    r"""$f_i(x) = \frac{1}{m_i} \sum_{j} \ell(x; a_{ij}, y_{ij}) + \alpha\, r(x)$ over the $m_i$ samples of agent $i$.

    The samples lie in one array in the order of their agents, so that agents may hold different numbers of them. Copies
    of the first samples follow the last as padding, because the slice of the last agent is as long as the longest.
    """

    inputs: Any
    targets: Any
    offsets: Int[Any, " agents"]
    sizes: Int[Any, " agents"]
    row_weights: Float[Any, " rows"]
    alpha: Any
    start: Float[Any, " d"]
    test_inputs: Any | None
    test_targets: Any | None
    agents: int = field(metadata={"static": True})
    dim: int = field(metadata={"static": True})
    model: Model = field(metadata={"static": True})
    longest: int = field(metadata={"static": True})
    data_name: str = field(metadata={"static": True})
    data_sha256: str = field(metadata={"static": True})
    honest: Int[Any, " honest"] | None = None
    agent_names: tuple[str, ...] | None = field(default=None, metadata={"static": True})
    class_names: tuple[str, ...] | None = field(default=None, metadata={"static": True})
    """The labels of the data in the order of their targets; None where they are real numbers."""

    def __repr__(self) -> str:
        return f"Empirical({self.data_name!r}, {self.agents} agents, d = {self.dim})"

    def local_loss(self, agent: Array, x: Array) -> Array:
        return self._objective(x, *self._own(agent, x.dtype))

    def local_gradient(self, agent: Array, x: Array) -> Array:
        return jax.grad(self._objective)(x, *self._own(agent, x.dtype))

    def batch_loss(self, agent: Array, rows: Int[Array, " batch"], x: Array) -> Array:
        """Return the loss of an agent on these of its own rows, counted from 0."""
        return self._objective(x, *self._batch(agent, rows, x.dtype))

    def batch_gradient(self, agent: Array, rows: Int[Array, " batch"], x: Array) -> Array:
        """Return the gradient of an agent on these of its own rows, counted from 0."""
        return jax.grad(self._objective)(x, *self._batch(agent, rows, x.dtype))

    def mean_loss(self, x: Array) -> Array:
        return self._over_all(self._fit, x) + self._penalty(x)

    def mean_gradient(self, x: Array) -> Array:
        return self._over_all(jax.grad(self._fit), x) + jax.grad(self._penalty)(x)

    def mean_loss_and_gradient(self, x: Array) -> tuple[Array, Array]:
        fit, slope = self._over_all(jax.value_and_grad(self._fit), x)
        penalty, pull = jax.value_and_grad(self._penalty)(x)
        return fit + penalty, slope + pull

    def among(self, honest: Int[np.ndarray, " honest"]) -> "Empirical":
        share = np.zeros(self.agents)
        share[honest] = 1 / len(honest)
        weights = np.zeros(len(self.row_weights))
        # the padding behind the samples has no weight
        weights[: self.sizes.sum()] = np.repeat(share / self.sizes, self.sizes)
        return replace(self, row_weights=weights, honest=np.asarray(honest, np.int32))

    def clipped_sum(
        self, agent: Array, chosen: Bool[Array, " longest"], x: Float[Array, " d"], most: Any
    ) -> Float[Array, " d"]:
        """Sum the gradients of the chosen samples of an agent, each clipped to the norm `most`, without the penalty.

        Single gradients are computed for their norms alone. The sum is then one gradient of a weighted loss.
        """

        def norm(row: Array) -> Array:
            return jnp.linalg.norm(jax.grad(self._fit)(x, *self._batch(agent, row[None], x.dtype)))

        together = max(1, SINGLE_GRADIENTS // self.dim)
        norms = jax.lax.map(norm, jnp.arange(self.longest, dtype=jnp.int32), batch_size=together)
        weights = jnp.where(chosen, jnp.where(norms > most, most / norms, 1), 0)
        inputs, targets, _ = self._own(agent, x.dtype)
        return jax.grad(self._fit)(x, inputs, targets, weights)

    def penalty_gradient(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """Return the gradient of the penalty, which is added to every agent's loss and depends on no sample."""
        return jax.grad(self._penalty)(x)

    def test_accuracy(self, x: Array) -> Array:
        predict = self.model.predict
        assert predict is not None
        assert self.test_inputs is not None

        def right(x: Array, inputs: Any, targets: Any, weights: Array) -> Array:
            return weights @ (predict(self.model.unravel(x), self._ready(inputs, x.dtype)) == targets)

        rows = self.test_inputs.shape[0]
        return self._in_blocks(right, x, self.test_inputs, self.test_targets, jnp.ones(rows, x.dtype), rows) / rows

    @property
    def has_samples(self) -> bool:
        return True

    @property
    def has_accuracy(self) -> bool:
        return self.test_inputs is not None and self.model.predict is not None

    @property
    def numbers_a_sample(self) -> int:
        """Return the count of numbers that a sample takes while its gradient is computed."""
        if self.model.linear and isinstance(self.inputs, Rows):
            return 3 * self.inputs.columns.shape[1]  # a place, a value and a product for each entry
        return max(self.model.numbers, math.prod(self.inputs.shape[1:]))

    @cached_property
    def local_smoothness(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None if self.model.smoothness is None else self.model.smoothness(self)

    def params(self, x: Any) -> Any:
        """Return a point as the pytree of parameters that the loss takes."""
        return self.model.unravel(jnp.asarray(x))

    def own_inputs(self, agent: int) -> np.ndarray:
        """Return the inputs of an agent as a dense array."""
        rows = self.sparse_inputs(agent)
        if isinstance(rows, np.ndarray):
            return rows
        refuse_beyond_memory(
            f"a dense matrix of the {rows.shape[0]:,} × {rows.shape[1]:,} inputs of agent {agent}",
            rows.dtype.itemsize * math.prod(rows.shape),
            "take sparse_inputs",
        )
        return rows.toarray()

    def sparse_inputs(self, agent: int) -> Any:
        """Return the inputs of an agent: a CSR array if they are stored sparse, else a NumPy array."""
        first, length = int(self.offsets[agent]), int(self.sizes[agent])
        if isinstance(self.inputs, Rows):
            return self.inputs.sparse(first, length)
        return np.asarray(self.inputs[first : first + length])

    def own_targets(self, agent: int) -> np.ndarray:
        """Return the targets of an agent."""
        first = int(self.offsets[agent])
        return np.asarray(self.targets[first : first + int(self.sizes[agent])])

    def _objective(self, x: Array, inputs: Any, targets: Any, weights: Array) -> Array:
        return self._fit(x, inputs, targets, weights) + self._penalty(x)

    def _fit(self, x: Array, inputs: Any, targets: Any, weights: Array) -> Array:
        return weights @ self.model.loss(self.model.unravel(x), self._ready(inputs, x.dtype), targets)

    def _penalty(self, x: Array) -> Array:
        if self.model.penalty is None:
            return jnp.zeros((), x.dtype)
        return self.alpha * self.model.penalty(self.model.unravel(x))

    def _over_all(self, function: Callable[..., Any], x: Array) -> Any:
        """Return the weighted sum of a function over all rows."""
        weights = self.row_weights.astype(x.dtype)
        rows = weights.shape[0] - self.longest  # the padding has no weight
        return self._in_blocks(function, x, self.inputs, self.targets, weights, rows)

    def _in_blocks(
        self, function: Callable[..., Any], x: Array, inputs: Any, targets: Any, weights: Array, rows: int
    ) -> Any:
        """Return the sum of a function over all rows, with a rounding error that does not grow with their number.

        Runs of `RUN` rows are summed each by itself, the runs of a block pairwise, and blocks by compensated summation.
        """
        width = math.prod(inputs.shape[1:])
        run = RUN if not self.model.numbers else min(RUN, max(16, WIDENED // width))
        if isinstance(inputs, Rows):  # longer where a run's sum of d numbers would take longer than its non-zeros
            run = max(run, 1 << (width // inputs.columns.shape[1]).bit_length() - 1)
        most = WIDENED // (width if isinstance(inputs, Rows) else run * width)
        runs = 1 if self.model.numbers else 1 << min(6, max(1, most).bit_length() - 1)
        if rows <= run:
            return function(x, inputs, targets, weights)
        block = min(run * runs, 1 << (rows.bit_length() - 1))
        runs = max(1, block // run)

        def of_block(first: Any) -> Any:
            at = jnp.minimum(first, rows - block)
            few, truth, own = rows_from(inputs, at, block), take(targets, at, block), take(weights, at, block)
            own = jnp.where(at + jnp.arange(block) < first, 0, own)  # the last block reaches back into the one before
            parts = in_runs(partial(function, x), runs, few, truth, own)
            return jax.tree.map(sum_pairwise, parts)

        def add(sums: tuple[Any, Any], first: Array) -> tuple[tuple[Any, Any], None]:
            total, lost = sums
            part = jax.tree.map(jnp.add, of_block(first), lost)
            more = jax.tree.map(jnp.add, total, part)
            return (more, jax.tree.map(rounding_error, total, part, more)), None

        zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(of_block, 0))
        firsts = jnp.arange(0, rows, block, dtype=jnp.int32)
        return jax.tree.map(jnp.add, *jax.lax.scan(add, (zero, zero), firsts)[0])

    def _ready(self, inputs: Any, dtype: Any) -> Any:
        """Return inputs as the model takes them: an array, or as they are stored if the model only multiplies."""
        return inputs if self.model.linear and isinstance(inputs, (Bits, Rows)) else inputs.astype(dtype)

    def _own(self, agent: Array, dtype: Any) -> tuple[Array, Array, Array]:
        first, size = self.offsets[agent], self.sizes[agent]
        inputs, targets = rows_from(self.inputs, first, self.longest), take(self.targets, first, self.longest)
        weights = jnp.where(jnp.arange(self.longest) < size, 1 / size.astype(dtype), 0)
        return inputs, targets, weights

    def _batch(self, agent: Array, rows: Array, dtype: Any) -> tuple[Array, Array, Array]:
        at = self.offsets[agent] + rows
        return self.inputs[at], self.targets[at], jnp.full(rows.shape, 1 / rows.shape[0], dtype)


def sum_pairwise(parts: Float[Array, "runs ..."]) -> Array:
    """Sum the rows of an array, whose number is a power of two, pair by pair."""
    while parts.shape[0] > 1:
        parts = parts[::2] + parts[1::2]
    return parts[0]


def rounding_error(total: Array, part: Array, more: Array) -> Array:
    """Return the rounding error of ``more = total + part``, exactly."""
    grown = more - total
    return (total - (more - grown)) + (part - grown)


class DataOptions(TypedDict, total=False):
    """Options of every problem on data: the split of rows over agents, and the reading of tables."""

    split: str | Sequence[Any]
    """The split of rows over agents, such as "by-label", or a list with the rows of each: see `gossamer.data.split`."""
    sizes: str
    """Sizes of the agents' parts, "equal" or "as-they-fall"."""
    seed: int
    """The seed of the split, and of a start that is drawn."""
    label: str
    """The label's column in a table or frame."""
    test: Any
    """A test set of the same kind as the data."""
    scale: bool
    """True if each feature is brought to mean 0 and standard deviation 1."""


Make = TypeVar("Make", bound=Callable[..., Empirical])

DEFAULTS = DataOptions(split="by-label", sizes="equal", seed=0, label="label", test=None, scale=False)


def on_data(make: Make) -> Make:
    """Give a function with ``**options`` the parameters and defaults of `DataOptions`, for specs and for errors."""
    own = inspect.signature(make)
    named = [parameter for parameter in own.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS[name], annotation=kind)
        for name, kind in get_type_hints(DataOptions).items()
    ]
    signature = own.replace(parameters=[*named, *shared])

    @wraps(make)
    def build(*given: Any, **options: Any) -> Empirical:
        bound = signature.bind(*given, **options)
        bound.apply_defaults()
        return make(*bound.args, **bound.kwargs)

    build.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
    return build  # pyright: ignore[reportReturnType]


@on_data
def empirical(
    loss: Callable[[Any, Array, Array], Array],
    params: Any,
    data: Any,
    agents: int | None = None,
    *,
    predict: Callable[[Any, Array], Array] | None = None,
    penalty: Callable[[Any], Array] | None = None,
    alpha: float = 1.0,
    **options: Unpack[DataOptions],
) -> Empirical:
    """Any JAX loss over a pytree of parameters.

    ``loss(params, inputs, targets)`` returns one loss for each sample of a batch; ``predict(params, inputs)``, if
    given, one target for each, and is compared with the test set; ``alpha * penalty(params)`` is added to every f_i.
    `params` is the start; parameters and inputs come in the dtype of the run, targets as the labels are. For `data`,
    `agents` and the options see `logistic`.
    """
    functions = {"loss": loss, "predict": predict, "penalty": penalty}
    takes = {"loss": "params, inputs, targets", "predict": "params, inputs", "penalty": "params"}
    check_functions("empirical", functions, takes)
    start, unravel = flatten(params)
    return of_functions(functions, takes, start, unravel, load_for_problem(data, options), agents, options, alpha)


def check_functions(maker: str, functions: dict[str, Any], takes: dict[str, str]) -> None:
    """Raise InputError unless all functions that are given, the loss among them, take these arguments."""
    for name, function in functions.items():
        if function is not None or name == "loss":
            check_function(f"{maker}({name}=…)", function, takes[name])


def of_functions(
    functions: dict[str, Any],
    takes: dict[str, str],
    start: np.ndarray,
    unravel: Callable[[Array], Any],
    data: Dataset,
    agents: int | None,
    options: Any,
    alpha: float,
) -> Empirical:
    """Return the problem of a loss, a predict and a penalty, tried on two samples.

    Errors name the arguments that the user's own functions take.
    """
    alpha = Range(-math.inf, math.inf, True, True, "It is the weight of the penalty.").check("alpha", alpha)
    if data.labels.dtype.kind == "U":
        raise InputError(
            f"the targets of a loss must be numbers, but the labels of {data.name} are text, such as "
            f"{str(data.labels[0])!r}. Number them first."
        )
    model = Model(unravel, functions["loss"], functions["penalty"], functions["predict"])
    problem = arrange(model, start, data, agents, options, alpha)
    # two samples tell a loss for each from a mean over both
    given = {"loss": (problem.inputs[:2].astype(np.float32), problem.targets[:2])}
    given |= {"predict": given["loss"][:1], "penalty": ()}
    for name, function in functions.items():
        if function is None:
            continue
        what = f"{name}, a function of ({takes[name]}) in JAX,"

        def call(x: Array, *rest: Any, function: Callable[..., Any] = function) -> Any:
            return function(unravel(x), *rest)

        returned = call_own(what, jax.eval_shape, call, start, *given[name])
        shape = getattr(returned, "shape", None)
        if name == "penalty" and shape != ():
            raise InputError(f"penalty must return one number, but returned shape {shape}.")
        if name != "penalty" and shape != (2,):
            raise InputError(
                f"{name} must return one value for each sample, but for two samples it returned shape {shape}. "
                "Leave out the mean over the batch: the problem takes it."
            )
        if name == "loss" and not jnp.issubdtype(returned.dtype, jnp.floating):
            raise InputError(
                f"loss must return floating numbers, which have a gradient, but returned {returned.dtype}. Take a "
                "smooth loss, and the absolute value of complex outputs."
            )
    return problem


def load_for_problem(data: Any, options: Any) -> Dataset:
    """Load the data set that a problem's `DataOptions` mean, with the column of holders if the split names one."""
    split, scale = options["split"], flag("scale", options["scale"])
    named = isinstance(split, str) and split.startswith("column:") and not isinstance(data, Dataset)
    holder = split.removeprefix("column:") if named else None
    dataset = load(data, label=options["label"], holder=holder, test=options["test"])
    if scale:
        return standardise(dataset)
    if not isinstance(data, Dataset):  # the author of a Dataset has seen its features
        warn_of_uneven(dataset)
    return dataset


def arrange(
    model: Model,
    start: np.ndarray,
    data: Dataset,
    agents: int | None,
    options: Any,
    alpha: float = 0.0,
    targets: Callable[[np.ndarray], np.ndarray] = lambda labels: labels,
) -> Empirical:
    """Return the problem of a model on a data set that is split over agents as its `DataOptions` say."""
    parts = split_rows(data, agents, options["split"], sizes=options["sizes"], seed=options["seed"])
    counts = np.array([len(part) for part in parts], np.int32)
    order = np.concatenate(parts)
    # the slice of the last agent is as long as the longest: copies of the first samples are its padding
    order = np.concatenate([order, np.resize(order, counts.max())])
    weights = np.zeros(len(order))
    # F is the mean over agents, however many samples each of them has
    weights[: counts.sum()] = np.repeat(1 / (len(parts) * counts), counts)
    tested = data.test_features is not None and data.test_labels is not None
    return Empirical(
        inputs=hold(data.features, model.linear, order, data.divisor),
        targets=targets(data.labels)[order],
        offsets=np.cumsum(counts, dtype=np.int32) - counts,
        sizes=counts,
        row_weights=weights,
        alpha=np.asarray(alpha, np.float64),
        start=start,
        test_inputs=hold(data.test_features, model.linear, None, data.divisor) if tested else None,
        test_targets=targets(np.asarray(data.test_labels)) if tested else None,
        agents=len(parts),
        dim=len(start),
        model=model,
        longest=int(counts.max()),
        data_name=data.name,
        data_sha256=data.sha256,
        agent_names=holder_names(data) if str(options["split"]).startswith("column:") else None,
        class_names=None if data.continuous else tuple(str(one).removesuffix(".0") for one in data.classes.tolist()),
    )


def flatten(params: Any) -> tuple[np.ndarray, Callable[[Array], Any]]:
    """Return all numbers of a pytree as one float64 vector, and the function that turns vectors into pytrees."""
    # Not ravel_pytree: it rounds to float32 unless x64 is on, and its inverse insists on the dtype that it was given.
    leaves, tree = jax.tree.flatten(params)
    if not leaves:
        raise InputError(f"params must be a pytree of arrays with a number at least, but is {brief(params)}.")
    leaves = [numbers("params", leaf) for leaf in leaves]
    shapes = [leaf.shape for leaf in leaves]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]

    def unravel(x: Array) -> Any:
        pieces = zip(jnp.split(x, ends), shapes, strict=True)
        return jax.tree.unflatten(tree, [piece.reshape(shape) for piece, shape in pieces])

    return np.concatenate([leaf.ravel() for leaf in leaves]), unravel
