"""Models of other libraries as problems: Equinox, Flax, and any parameters with a function that applies them."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.core import InputError, brief, call_own, check_function, whole
from gossamer.data import Dataset
from gossamer.problems.empirical import (
    DataOptions,
    Empirical,
    check_functions,
    flatten,
    load_for_problem,
    of_functions,
    on_data,
)


class Taken(NamedTuple):
    """A model, taken apart: its start, the function that makes it of a vector, and the one that applies it."""

    start: np.ndarray
    rebuild: Callable[[Array], Any]
    apply: Callable[[Any, Array], Any]


@on_data
def module(
    model: Any,
    loss: Callable[[Any, Array], Array],
    data: Any,
    agents: int | None = None,
    *,
    apply: Callable[[Any, Array], Any] | None = None,
    predict: Callable[[Any], Array] | None = None,
    penalty: Callable[[Any], Array] | None = None,
    alpha: float = 1.0,
    **options: Unpack[DataOptions],
) -> Empirical:
    """A model of Equinox or Flax with a loss of its outputs, from the model's own parameters.

    ``loss(outputs, targets)`` returns one loss for each sample of a batch, as those of optax do; ``predict(outputs)``,
    if given, one target for each, and is compared with the test set; ``alpha * penalty(model)`` is added to every f_i.

    A module of Equinox is mapped over the rows of a batch; one of Flax, nnx or Linen, gets the batch (the parameters of
    Linen are drawn from `seed`). ``apply(model, inputs)``, if given, is called in their place, to give rows the shape
    of images, say; with it the model may be any pytree of parameters. All floating arrays of the model are parameters,
    in the dtype of the run. A model with other arrays or with state, such as a batch norm's, is refused. An array that
    a module of Equinox holds twice is two parameters, unless `eqx.nn.Shared` ties them. A module of Linen that takes
    rows of another shape is given as its variables, ``model.init(key, images)``, with ``apply=``.

    `Empirical.params` returns a point as a model again. For `data`, `agents` and the options see `logistic`.
    """
    dataset = load_for_problem(data, options)
    # two rows tell an output for each from one for all
    rows = jnp.asarray(np.zeros((2, dataset.dim), np.float32))
    if apply is not None:
        check_function("module(apply=…)", apply, "model, inputs")
    takes = {"loss": "outputs, targets", "predict": "outputs", "penalty": "model"}
    check_functions("module", {"loss": loss, "predict": predict, "penalty": penalty}, takes)
    taken = take_apart(model, apply, rows, whole("seed", options.get("seed"), least=0))
    _check_outputs(taken, rows, dataset)
    functions = {
        "loss": lambda model, inputs, targets: loss(taken.apply(model, inputs), targets),
        "predict": predict and (lambda model, inputs: predict(taken.apply(model, inputs))),
        "penalty": penalty,
    }
    return of_functions(functions, takes, taken.start, taken.rebuild, dataset, agents, options, alpha)


def take_apart(model: Any, apply: Callable[[Any, Array], Any] | None, rows: Array, seed: int) -> Taken:
    """Return the parts of a model; raise InputError for what is none."""
    if _is_of(model, "equinox", "Module"):
        import equinox as eqx  # pyright: ignore[reportMissingImports]

        parts = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, eqx.nn.StateIndex))
        if any(isinstance(part, eqx.nn.StateIndex) for part in parts):
            _refuse_state("a StateIndex of Equinox")
        arrays, rest = eqx.partition(model, lambda leaf: isinstance(leaf, (jax.Array, np.ndarray)))
        start, unravel = _flatten(arrays)
        return Taken(
            start, lambda x: eqx.combine(unravel(x), rest), apply or (lambda model, rows: jax.vmap(model)(rows))
        )
    if _is_of(model, "flax.nnx", "Module"):
        from flax import nnx  # pyright: ignore[reportMissingImports]

        form, params, others = nnx.split(model, nnx.Param, ...)
        if leaves := jax.tree.leaves_with_path(others):
            _refuse_state(f"{jax.tree_util.keystr(leaves[0][0])}")
        start, unravel = _flatten(params)
        return Taken(start, lambda x: nnx.merge(form, unravel(x)), apply or (lambda model, rows: model(rows)))
    if _is_of(model, "flax.linen", "Module"):
        draw = jax.random.key(seed)
        variables = call_own("module(model=…), a module of Linen, at init", model.init, draw, rows[:1])
        if others := sorted({*variables} - {"params"}):
            _refuse_state(others[0])
        return Taken(*_flatten(variables), apply or model.apply)
    if apply is None:
        raise InputError(
            f"module(model=…) must be a module of Equinox or Flax, but is {brief(model)}. For a pytree of parameters "
            "give apply=…, a function of (model, inputs)."
        )
    return Taken(*_flatten(model), apply)


def _is_of(model: Any, package: str, name: str) -> bool:
    """Return True for an instance of a package's class; a package that was not imported has none."""
    return package in sys.modules and isinstance(model, getattr(sys.modules[package], name, ()))


def _flatten(params: Any) -> tuple[np.ndarray, Callable[[Array], Any]]:
    """Return what `flatten` does; raise InputError if a leaf is no array of floating numbers."""
    for path, leaf in jax.tree.leaves_with_path(params):
        kind = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
        if not jnp.issubdtype(kind, jnp.floating):
            raise InputError(
                f"the model has {jax.tree_util.keystr(path)} of {kind}, which no gradient can change: make it a "
                "floating array, or keep it out of the model's arrays."
            )
    return flatten(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params))  # of bfloat16, too


def _refuse_state(name: str) -> None:
    raise InputError(
        f"the model has state besides its parameters, {name}, such as a batch norm's means or a dropout's keys: a loss "
        "may depend on parameters and data alone. Use a layer without state, such as a layer norm."
    )


def _check_outputs(taken: Taken, rows: Array, data: Dataset) -> None:
    """Raise InputError if the model fails on rows of the data, or does not return an output for each."""
    what = f"the model, on rows of {data.dim:,} features as {data.name} has,"
    outputs = call_own(what, jax.eval_shape, lambda x, rows: taken.apply(taken.rebuild(x), rows), taken.start, rows)
    for leaf in jax.tree.leaves(outputs):
        if leaf.shape[:1] != rows.shape[:1]:
            raise InputError(
                f"the model must return an output for each row, with the rows as the first axis, but for two rows it "
                f"returned shape {leaf.shape}."
            )
