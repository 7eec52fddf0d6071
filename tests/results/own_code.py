"""What a user might write: functions, classes and objects of every kind that a cache key must follow."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.core import State, StepSize, rule

SCALE = 0.5
TABLE = {"a": [1, 2], "b": (np.arange(3.0), None)}
NAMES = {"x", "y", "z", "w"}


def helper(g):
    return SCALE * g


class Base:
    factor = 2.0

    def apply(self, g):
        return self.factor * helper(g)


class Child(Base):
    @property
    def size(self):
        return 3

    @staticmethod
    def twice(g):
        return g * 2


def made(constant):
    def inner(g, x, site, shift=1.0):
        return helper(g) * constant + shift + (x in {"p", "q", "r"}) + TABLE["a"][0] + len(NAMES)

    return inner


@jax.jit
def jitted(g, x, site):
    return jnp.tanh(helper(g))


@jax.custom_jvp
def curved(g):
    return g**2


curved.defjvp(lambda primals, tangents: (curved(primals[0]), 2.0 * primals[0] * tangents[0]))


@rule("mine")
class Mine:
    """My own rule."""

    eta: StepSize

    def init(self, x, agent):
        return State(x=x)

    def step(self, s, agent):
        return State(x=agent.gossip(s.x) - self.eta * helper(agent.gradient(s.x)))


def loss(params, inputs, targets):
    return (inputs @ params["w"] - targets) ** 2


OBJECTS = {
    "closure": made(3.0),
    "lambda": lambda g, x, site: SCALE * g,
    "partial": functools.partial(helper, g=np.ones(2)),
    "class": Child,
    "object": Child(),
    "method": Child().apply,
    "jitted": jitted,
    "curved": curved,
    "rule": Mine(0.1),
    "oracle": gs.oracles.minibatch(4) | gs.oracles.custom(made(2.0)),
    "compressor": gs.compressors.top_k(share=0.1),
    "schedule": lambda t: SCALE / (t + 1),
    "problem": gs.problems.empirical(
        loss, {"w": np.zeros(3)}, (np.arange(24.0).reshape(8, 3), np.arange(8.0)), agents=2
    ),
}
