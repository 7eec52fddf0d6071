"""Error feedback: its recursions, what it adds up to, and the floor that it removes."""

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer.compressors import identity, top_k
from gossamer.experiments.audit import audit
from gossamer.oracles import compressed, error_feedback, exact, minibatch
from gossamer.specs.spec import Spec
from tests import plain
from tests.oracles.sites import DIM, PROBLEM, ask, at
from tests.table import table

PROBLEM_8, _ = plain.heterogeneous()
TOP = top_k(1)


def largest(a):
    """The one coordinate of largest size, in NumPy."""
    kept = np.zeros_like(a)
    kept[np.abs(a).argmax()] = a[np.abs(a).argmax()]
    return kept


def answers(oracle, queries=8):
    """The answers of agent 1 at points that go on, the gradients there, and the memory at the end."""
    points = [np.cos(t + np.arange(DIM)) for t in range(queries)]
    told, state = [], None
    with jax.enable_x64(True):
        for t, x in enumerate(points):
            (g,), state = ask(oracle, at(1, seed=t), x, state=state)
            told.append(g)
    return np.array(told), np.array([PROBLEM.gradients(x)[1] for x in points]), np.asarray(state["kept"])


def test_classic_is_its_recursion_and_loses_nothing():
    told, gradients, left = answers(exact() | error_feedback(TOP, "classic"))
    e = np.zeros(DIM)
    for answer, g in zip(told, gradients, strict=True):
        np.testing.assert_allclose(answer, largest(e + g), rtol=1e-12)
        e = e + g - largest(e + g)
    np.testing.assert_allclose(left, e, rtol=1e-10)
    np.testing.assert_allclose(told.sum(0) + left, gradients.sum(0), rtol=1e-12)


def test_ef21_is_its_recursion():
    told, gradients, left = answers(exact() | error_feedback(TOP))
    state = np.zeros(DIM)
    for answer, g in zip(told, gradients, strict=True):
        state = state + largest(g - state)
        np.testing.assert_allclose(answer, state, rtol=1e-12)
    np.testing.assert_array_equal(left, told[-1])


@pytest.mark.parametrize("method", ["ef21", "classic"])
def test_a_compressor_that_changes_nothing_changes_nothing(method):
    told, gradients, _ = answers(exact() | error_feedback(identity(), method), queries=3)
    np.testing.assert_allclose(told, gradients, rtol=1e-12)
    stated = (minibatch(2) | error_feedback(identity(), method)).constants(PROBLEM)
    assert stated == minibatch(2).constants(PROBLEM)


def floor(stage, eta):
    """How far Biased-DMT ends from the optimum of different quadratics, with 1 of 5 coordinates."""
    rule = gs.BiasedDMT(eta=eta, lam=0.3)
    result = gs.simulate(rule, PROBLEM_8, plain.irregular(), stage, steps=3000, dtype="float64")
    return np.abs(result.iterates["biased-dmt"][0] - PROBLEM_8.solution()).max()


def test_ef21_reaches_the_optimum_where_compression_stays_away():
    assert floor(compressed(TOP), 0.1) > 0.5
    assert floor(error_feedback(TOP), 0.1) < 1e-10


def test_the_floor_of_the_classic_form_falls_with_the_step():
    wide, narrow = floor(error_feedback(TOP, "classic"), 0.1), floor(error_feedback(TOP, "classic"), 0.01)
    assert 0.1 < wide < 0.5
    assert 0.01 < narrow < wide / 5


def test_an_audit_repeats_queries_with_the_memory_of_the_path():
    """From the start, where EF21 knows nothing, to rest, where its answers are exact."""
    spec = {
        "problem": {"name": "quadratic", "A": PROBLEM_8.A.tolist(), "b": PROBLEM_8.b.tolist()},
        "network": {"name": "ring"},
        "oracle": {"stages": [{"kind": "error-feedback", "compressor": {"kind": "top-k", "k": 1}}]},
        "run": {"steps": 3000, "dtype": "float64"},
        "algorithm": [{"name": "biased-dmt", "eta": 0.1, "lam": 0.3}],
    }
    (finding,) = audit(Spec.of(spec), rounds=2, progress=False).findings
    assert finding.rounds == [0, 2999]
    assert finding.measured.queries == 1
    first, last = finding.measured.bias_sq
    assert first.max() > 0.1
    assert last.max() < 1e-20
    assert "depends on the gradients before, and goes to zero" in finding.stated.note


def test_what_is_refused():
    with pytest.raises(
        gs.InputError, match=r"error_feedback takes a compressor, such as .*top_k\(10\), but was given 3"
    ):
        error_feedback(3)
    with pytest.raises(gs.InputError, match=r"method='ef22'\) is not known; did you mean 'ef21'"):
        error_feedback(TOP, "ef22")
    with pytest.raises(gs.InputError, match=r"asks at 2 points in one call\. Use a rule that asks at one point, or"):
        gs.simulate(gs.GTHSGD(eta=0.1, a=0.5), PROBLEM_8, plain.irregular(), error_feedback(TOP), steps=1)
    with pytest.raises(gs.InputError, match="more coordinates than"):
        error_feedback(top_k(9)).around(exact()).check(PROBLEM_8)


@table(
    ("stage", "message"),
    [
        ({"kind": "error-feedback"}, r"\[oracle\] stage 1: error-feedback: key 'compressor' is missing"),
        ({"kind": "error-feedback", "compressor": "top-k"}, r'stage 1: compressor must be a table, \{ kind = "…" \}'),
        (
            {"kind": "error-feedback", "compressor": {"kind": "topk"}},
            r"stage 1: compressor: kind = 'topk' is not known",
        ),
        ({"kind": "error-feedback", "compressor": {"kind": "top-k", "k": 1}, "method": "ef"}, "did you mean 'ef21'"),
        ({"kind": "private", "clip": 1.0, "noise": 1.0, "rate": 0.1}, r"stage 1: private draws its own rows"),
    ],
)
def test_specs_are_refused_with_their_place(stage, message):
    spec = {
        "problem": {"name": "logistic", "data": "breast-cancer", "agents": 4},
        "network": {"name": "ring"},
        "oracle": {"batch": 4, "stages": [stage]},
        "run": {"steps": 1},
        "algorithm": [{"name": "d-psgd", "eta": 0.1}],
    }
    with pytest.raises(gs.InputError, match=message):
        Spec.of(spec).parts()
