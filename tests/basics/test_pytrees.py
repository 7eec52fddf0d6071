"""JAX tells our classes apart, and no compiled program answers for another."""

from dataclasses import dataclass, field, fields, is_dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer import compressors, oracles
from gossamer.basics.pytrees import refuse_mistakable
from gossamer.compressors import Compressor, Errors
from gossamer.networks import Network
from gossamer.networks.mixers import Mixer
from gossamer.oracles import Oracle, Stage
from gossamer.problems import Problem
from tests import compiled

PROBLEM = gs.problems.quadratic(np.diag([1.0, 2.0, 3.0]), np.arange(6.0).reshape(2, 3) - 1)
LINE = gs.networks.ring(2)


def shipped():
    """All classes of ours that are pytrees: the final ones below these."""
    classes, pending = {Network}, [Oracle, Compressor, Mixer, Problem]
    while pending:
        cls = pending.pop()
        pending += cls.__subclasses__()
        if cls.__module__.startswith("gossamer.") and is_dataclass(cls):
            classes.add(cls)
    return sorted(classes, key=lambda cls: cls.__qualname__)


def structure(cls):
    """What JAX compares, where every field is zero."""
    instance = object.__new__(cls)
    for part in fields(cls):
        object.__setattr__(instance, part.name, 0)
    return jax.tree.structure(instance)


def test_every_two_of_our_classes_have_different_structures():
    assert len(shipped()) > 30
    for one, other in combinations(shipped(), 2):
        assert structure(one) != structure(other), (one, other)
        assert structure(one) == structure(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (compressors.identity(), compressors.scaled_sign()),
        (compressors.identity(), compressors.bf16()),
        (compressors.qsgd(4), compressors.round_linf(4)),
        (oracles.clip(0.5), oracles.relative_bias(0.5)),
        (oracles.additive_bias(vectors=np.ones((2, 3))), oracles.relative_bias(factors=np.ones((2, 3)))),
        (oracles.exact() | oracles.scaled_sign(), oracles.exact() | oracles.compressed(compressors.bf16())),
    ],
)
def test_parts_of_one_shape_have_different_structures(one, other):
    assert jax.tree.structure(one) != jax.tree.structure(other)


def test_one_place_alone_uses_the_decorator_of_jax():
    source = Path(gs.__file__).parent
    users = {path.name for path in source.rglob("*.py") if "register_dataclass(" in path.read_text()}
    assert users == {"pytrees.py"}


def test_many_classes_go_through_one_compiled_function_and_each_has_its_own_answer():
    answer = jax.jit(lambda instance, x: instance.number() * x)

    def with_number(k):
        @gs.pytree
        @dataclass(frozen=True)
        class Plain:
            def number(self):
                return k

        return Plain()

    assert [int(answer(with_number(k), 1)) for k in range(80)] == list(range(80))


@gs.pytree
@dataclass(frozen=True)
class Scaled(Compressor):
    """A number times the vector, as an argument of the program."""

    scale: Any
    name = "scaled"

    @property
    def unbiased(self):
        return False

    def compress(self, key, a):
        return self.scale * a

    def bits(self, dim, itemsize):
        return 8.0 * itemsize * dim

    def errors(self, dim):
        return Errors(1.0)


@gs.pytree
@dataclass(frozen=True)
class Signed(Scaled):
    """A number times the scaled sign."""

    def compress(self, key, a):
        return self.scale * compressors.scaled_sign().compress(key, a)


def scaled_by(number):
    """The same as a class of its own, with the number in the program."""

    @gs.pytree
    @dataclass(frozen=True)
    class Fixed(compressors.Identity):
        def compress(self, key, a):
            return number * a

    return Fixed()


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["optimised", "not optimised"])
def _compiled_both_ways(request):
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", request.param)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.usefixtures("_compiled_both_ways")
def test_compressors_of_one_shape_never_answer_for_one_another_in_a_run():
    """Each of many classes without leaves runs as does one class whose number is an argument of its program."""
    compiled.forgotten()
    numbers = np.linspace(0.1, 0.9, 3)  # two programs are compiled for each

    def end(compressor):
        rule = gs.ChocoSGD(eta=0.1, gamma=0.5, compressor=compressor)
        return gs.simulate(rule, PROBLEM, LINE, steps=3, dtype="float64", progress=False).iterates["choco-sgd"]

    pairs = {
        compressors.scaled_sign(): Signed(np.asarray(1.0)),
        compressors.identity(): Scaled(np.asarray(1.0)),
        **{scaled_by(number): Scaled(np.asarray(number)) for number in numbers},
    }
    ends = [end(compressor) for compressor in pairs]
    wanted = [end(compressor) for compressor in pairs.values()]
    np.testing.assert_allclose(ends, wanted, rtol=1e-12)
    assert min(np.abs(one - other).max() for one, other in combinations(wanted, 2)) > 1e-4


def by_jax():
    """A compressor and a stage that a user registered with JAX's own decorator."""

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Half(Compressor):
        name = "half"

        @property
        def unbiased(self):
            return False

        def compress(self, key, a):
            return 0.5 * a

        def bits(self, dim, itemsize):
            return 8.0 * itemsize * dim

        def errors(self, dim):
            return Errors(0.25)

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Doubled(Stage):
        factor: Any
        inner: Oracle | None = None

        def check(self, problem):
            self.source.check(problem)

        def query(self, site, state, points):
            gradients, state = self.source.query(site, state, points)
            return tuple(self.factor * g for g in gradients), state

        def bias(self, site, state):
            return None

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True, eq=False, repr=False)
    class Bowl(type(PROBLEM)):
        pass

    return Half(), Doubled(2.0), Bowl(PROBLEM.A, PROBLEM.b, PROBLEM.start)


def test_refuses_classes_that_jax_takes_for_one_another():
    half, doubled, bowl = by_jax()
    for refused, calls in {
        "Half": (
            lambda: gs.simulate(gs.ChocoSGD(0.1, 0.5, half), PROBLEM, LINE, steps=1),
            lambda: gs.simulate(gs.GNSD(0.1), PROBLEM, LINE, oracles.compressed(half), steps=1),
        ),
        "Doubled": (
            lambda: gs.simulate(gs.GNSD(0.1), PROBLEM, LINE, doubled | oracles.clip(1.0), steps=1),
            lambda: oracles.measure(doubled, PROBLEM, PROBLEM.start),
        ),
        "Bowl": (lambda: gs.simulate(gs.GNSD(0.1), bowl, LINE, steps=1), lambda: bowl.loss(PROBLEM.start)),
    }.items():
        for call in calls:
            with pytest.raises(gs.InputError, match=rf"{refused} is registered with .* Put @gossamer\.pytree above"):
                call()


def test_refuses_a_class_that_nobody_registered():
    @dataclass(frozen=True)
    class Bare(type(compressors.identity())):
        pass

    with pytest.raises(gs.InputError, match=r"Bare is a dataclass that JAX does not know: put @gossamer\.pytree above"):
        gs.simulate(gs.GNSD(0.1), PROBLEM, LINE, oracles.compressed(Bare()), steps=1)


def test_classes_that_jax_tells_apart_are_not_refused():
    """Those with functions of their own, and the containers of Python."""

    @jax.tree_util.register_pytree_node_class
    class Own:
        def tree_flatten(self):
            return (1.0, 2.0), (3,)

        @classmethod
        def tree_unflatten(cls, fixed, leaves):
            return cls()

    refuse_mistakable(Own(), {"a": [None, (), np.ones(2), gs.State(x=1.0)]}, Errors(1.0))


def test_no_check_runs_when_jax_rebuilds_an_object():
    calls = []

    @gs.pytree
    @dataclass(frozen=True)
    class Checked:
        share: Any
        name: str = field(metadata={"static": True})
        double: Any = field(init=False)

        def __post_init__(self):
            calls.append(self.name)
            object.__setattr__(self, "double", 2 * self.share)

    checked = Checked(0.5, "half")
    again = jax.jit(lambda part: jax.tree.map(lambda leaf: leaf + 1, part))(checked)
    assert calls == ["half"]
    assert (float(again.share), again.name, float(again.double)) == (1.5, "half", 2.0)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(checked)]
    assert paths == [".share", ".double"]


def test_refuses_what_is_no_dataclass_or_a_pytree_already():
    with pytest.raises(gs.InputError, match=r"takes a dataclass: put @dataclass\(frozen=True\) under it, on Bare"):
        gs.pytree(type("Bare", (), {}))
    with pytest.raises(gs.InputError, match="Scaled is a pytree already"):
        gs.pytree(Scaled)
