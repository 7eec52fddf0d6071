"""The base class of problems: losses, gradients, smoothness and heterogeneity."""

import abc
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gossamer.basics.arrays import numbers
from gossamer.basics.pytrees import refuse_mistakable
from gossamer.core import InputError, brief


class Problem(abc.ABC):
    r"""Minimise $F(x) = \frac1n \sum_i f_i(x)$ over $x \in \mathbb{R}^d$.

    The abstract methods are pure JAX functions that engines and oracles trace, in the dtype of ``x``. The others are
    for people: they take and return NumPy arrays, in float64. A problem is a JAX pytree whose leaves are its data.
    """

    agents: int
    dim: int
    start: Any
    """The common point that every agent starts from."""
    honest: Int[Any, " honest"] | None = None
    """The agents of whom F is the mean, where that is not all of them: see `among`."""
    agent_names: tuple[str, ...] | None = None
    """The names of the agents in their order, where a column of a table or `holders` said who holds a row."""

    @abc.abstractmethod
    def local_loss(self, agent: Array, x: Float[Array, " d"]) -> Float[Array, ""]:
        """Return f_i(x)."""

    @abc.abstractmethod
    def local_gradient(self, agent: Array, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """Return ∇f_i(x)."""

    @abc.abstractmethod
    def mean_loss(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        """Return F(x)."""

    @abc.abstractmethod
    def mean_gradient(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """Return ∇F(x)."""

    def among(self, honest: Int[np.ndarray, " honest"]) -> "Problem":
        """Return the problem whose F is the mean over these agents alone; the others keep their losses."""
        raise InputError(
            f"{type(self).__name__} cannot leave out the losses of attackers: give it a method among(self, honest) "
            "that returns it with F as the mean over these agents, and with the field honest set."
        )

    def mean_loss_and_gradient(self, x: Float[Array, " d"]) -> tuple[Float[Array, ""], Float[Array, " d"]]:
        """Return F(x) and ∇F(x), which may cost less than two calls."""
        return self.mean_loss(x), self.mean_gradient(x)

    @property
    def has_samples(self) -> bool:
        """True if mini-batches can be drawn: then there are `sizes`, `batch_loss` and `batch_gradient`."""
        return False

    @property
    def has_accuracy(self) -> bool:
        """True if there is a test set and a prediction to compare with it: then there is `test_accuracy`."""
        return False

    @property
    def local_smoothness(self) -> np.ndarray | None:
        """Return L_i of each agent, if it is known."""
        return None

    @property
    def smoothness(self) -> float | None:
        """Return L, such that every f_i is L-smooth, if it is known."""
        known = self.local_smoothness
        return None if known is None else float(known.max())

    def loss(self, x: Any) -> float:
        """Return F(x)."""
        return float(_evaluate(self, "mean_loss", x))

    def gradient(self, x: Any) -> np.ndarray:
        """Return ∇F(x)."""
        return _evaluate(self, "mean_gradient", x)

    def gradients(self, x: Any) -> Float[np.ndarray, "agents d"]:
        """Return ∇f_i(x) of every agent, at one common point."""
        return _evaluate(self, "_all_gradients", x)

    def heterogeneity(self, x: Any) -> float:
        """Return ζ²(x), the mean over agents of ‖∇f_i(x) − ∇F(x)‖²."""
        g = self.gradients(x)
        return float(((g - g.mean(0)) ** 2).sum(1).mean())

    def accuracy(self, x: Any) -> float | None:
        """Return the share of the test set that the model predicts right, or None without a test set."""
        return float(_evaluate(self, "test_accuracy", x)) if self.has_accuracy else None

    def _all_gradients(self, x: Array) -> Array:
        return jax.lax.map(lambda i: self.local_gradient(i, x), jnp.arange(self.agents), batch_size=100)


def check_problem(given: Any) -> None:
    """Raise InputError if this is no problem."""
    if not isinstance(given, Problem):
        raise InputError(f"the problem must be made by gossamer.problems, but is {brief(given)}.")


def cast(tree: Any, dtype: Any) -> Any:
    """Return the tree on the device, its floating leaves in this dtype and the others as they are.

    Every argument of a compiled program passes here, so classes that JAX would mistake for others are refused here.
    """
    refuse_mistakable(tree)
    leaves, structure = jax.tree.flatten(tree)
    arrays = [leaf if isinstance(leaf, jax.Array) else np.asarray(leaf) for leaf in leaves]
    with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite
        precise = [a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a for a in arrays]
    # all at once: `jnp.asarray` of NumPy's arrays would compile a program for each of their shapes
    return jax.tree.unflatten(structure, jax.device_put(precise))


def _evaluate(problem: Problem, method: str, x: Any) -> np.ndarray:
    x = numbers("x", x, finite=False)
    if x.shape != (problem.dim,):
        raise InputError(f"a point of this problem has shape ({problem.dim},), but x has shape {x.shape}.")
    with jax.enable_x64(True):
        return np.asarray(call_method(method, cast(problem, np.float64), x))


@partial(jax.jit, static_argnums=0)
def call_method(method: str, problem: Problem, x: Array) -> Array:
    """Call a method of a problem at a point, compiled."""
    return getattr(problem, method)(x)
