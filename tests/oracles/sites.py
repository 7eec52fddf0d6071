"""Agents at their queries, in float64, without an engine; and a small problem with unequal agents."""

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.data import Dataset
from gossamer.oracles import Site
from gossamer.problems import logistic, quadratic
from gossamer.problems.problem import cast

SIZES = (5, 12, 7)
DIM = 4
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(sum(SIZES), DIM))
POINTS = RNG.normal(size=(3, DIM))


def unequal():
    """Logistic regression over three agents with 5, 12 and 7 samples."""
    labels, holders = np.resize([-1, 1, 1], sum(SIZES)), np.repeat(np.arange(3), SIZES)
    return logistic(Dataset("small", FEATURES, labels, holders=holders), split="column:who")


PROBLEM = unequal()
FLAT = quadratic(np.eye(DIM), np.zeros((3, DIM)))
"""Its gradient at zero is zero, so what an oracle says there is its error."""


def key(seed, agent=0):
    return jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), agent)


def at(agent=0, seed=0, t=0, problem=PROBLEM, dtype=np.float64):
    """One agent at one query."""
    return Site(cast(problem, dtype), jnp.int32(agent), key(seed, agent), jnp.int32(t))


def ask(oracle, site, *points, state=None):
    """The gradients at the points and the next state; the state before the first query unless given."""
    points = tuple(jnp.asarray(x, site.problem.start.dtype) for x in points)
    gradients, state = _first(oracle, site, points) if state is None else _next(oracle, site, state, points)
    return [np.asarray(g) for g in gradients], state


# Oracles are arguments, as in the engine: all of one structure share a compilation.


@jax.jit
def _first(oracle, site, points):
    return oracle.query(site, oracle.init(site), points)


@jax.jit
def _next(oracle, site, state, points):
    return oracle.query(site, state, points)
