"""How many kernels a round is: XLA fuses it into few only as long as the tricks that make it do so work."""

import re
from functools import cached_property

import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer import networks, oracles, problems
from gossamer.engines import program
from gossamer.engines.block import LEGS, Block

pytestmark = pytest.mark.slow
FREE = ("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "call")
"""What costs nothing when a program runs."""


class Hlo:
    """The text of a compiled program, as computations by name, each a list of instructions."""

    def __init__(self, text: str):
        parts = re.findall(r"^(?:ENTRY )?%(\S+) \(.*?\{\n(.*?)^\}", text, re.M | re.S)
        self.computations = {name: re.findall(r"^\s+(?:ROOT )?%\S+ = (.*)$", body, re.M) for name, body in parts}

    def called(self, name: str, how: str, by: str = "") -> list[str]:
        lists = re.findall(rf"{by}.*\b{how}=(\{{.*?\}}|%[\w.\-]+)", "\n".join(self.computations[name]))
        return [called for names in lists for called in re.findall(r"%([\w.\-]+)", names)]

    def parts(self, name: str) -> list[str]:
        """The branches in a computation, and what it calls: a newer jaxlib gives each loop a computation."""
        return self.called(name, "branch_computations") + self.called(name, "to_apply", by=r" call\(")

    def loops(self, name: str) -> list[str]:
        """The bodies of the loops in a computation."""
        return self.called(name, "body") + [body for part in self.parts(name) for body in self.loops(part)]

    @cached_property
    def round(self) -> str:
        """The body of the loop over rounds: the loop inside the loop over stops."""
        (entry,) = [name for name in self.computations if name.startswith("main")]
        (stops,) = self.loops(entry)
        bodies = self.loops(stops)
        assert bodies, "there is no loop over rounds"
        return bodies[0]

    def thunks(self, name: str) -> int:
        """The kernels, copies and branches that are run for a computation, those of a loop in it counted once."""
        kinds = [re.search(r"\s([\w\-]+)\(", " " + line.split(" ", 1)[1]) for line in self.computations[name]]
        own = sum(kind is not None and kind[1] not in FREE for kind in kinds)
        inner = self.parts(name) + self.called(name, "body")
        return own + sum(self.thunks(called) for called in inner)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.integers(0, 2, (400, 40)).astype(np.int8), draw.integers(0, 2, 400)


def compiled_round(data: tuple[np.ndarray, np.ndarray], oracle: oracles.Oracle, settings: int = 1) -> Hlo:
    rules = [gs.BiasedDMT(eta=0.1, lam=0.05)] * settings
    problem, network = problems.logistic(data, 20), networks.ring(20)
    block = Block(rules, problem, network, [oracle] * settings, seeds=[0], steps=100, dtype="float32")
    stops, wanted = jnp.full(LEGS, 10, jnp.int32), jnp.zeros(LEGS, bool)
    arguments = (
        block.form,
        block.metrics,
        *block.inputs(0, 10),
        block.keys,
        block.run,
    )
    return Hlo(program.advance.lower(*arguments, jnp.int32(0), stops, wanted, {}).compile().as_text())


@pytest.mark.parametrize(
    ("oracle", "most"),
    [
        (oracles.exact(), 20),
        (oracles.minibatch(16), 29),
        (oracles.minibatch(16) | oracles.additive_bias(0.1, 0.1, redraw=True), 34),
        (oracles.minibatch(16) | oracles.qsgd(4), 42),
    ],
)
def test_a_round_is_a_few_dozen_kernels(data, oracle, most):
    # JAX's own threefry alone was 160 of 191
    hlo = compiled_round(data, oracle)
    assert 8 <= hlo.thunks(hlo.round) <= most


def test_random_words_are_made_once_a_round(data):
    # the cipher ends in the additions of its fifth step; were its words made anew by everything that reads them, there
    # would be one such fusion for each reader
    hlo = compiled_round(data, oracles.minibatch(16))
    ciphers = [name for name, lines in hlo.computations.items() if sum("xor(" in line for line in lines) >= 20]
    assert len(ciphers) == 2  # the keys of the agents' round, and their words


@pytest.mark.parametrize("settings", [1, 32])
def test_kernels_of_a_round_are_not_split_over_cores(data, settings):
    hlo = compiled_round(data, oracles.minibatch(16), settings)
    lines = [line for lines in hlo.computations.values() for line in lines]
    assert not any("outer_dimension_partitions" in line or "kind=kCustom" in line for line in lines)
