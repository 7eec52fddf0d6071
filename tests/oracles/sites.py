"""Agents at their queries, in float64, without an engine; and a small problem with unequal agents."""

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.data import Dataset
from gossamer.oracles import Site
from gossamer.problems import logistic
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


def key(seed, agent=0):
    return jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), agent)


def at(agent=0, seed=0, t=0, problem=PROBLEM, dtype=np.float64):
    """One agent at one query."""
    return Site(cast(problem, dtype), jnp.int32(agent), key(seed, agent), jnp.int32(t))


def ask(oracle, site, *points, state=None):
    """The gradients at the points and the next state, compiled."""
    state = oracle.init(site) if state is None else state
    found, state = jax.jit(lambda site, state, points: oracle.query(site, state, points))(site, state, points)
    return [np.asarray(g) for g in found], state
