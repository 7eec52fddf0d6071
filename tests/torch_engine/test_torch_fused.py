"""Arithmetic that is noted down and done block by block: the same bits, in memory that nobody needs any more."""

import gc
from functools import partial

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer.torch import Decentralized, fused
from gossamer.torch.fused import Number, Vector, computed, weighted
from tests.torch_engine.small import problem, same, steps


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    monkeypatch.setattr(fused, "SHORTEST", 1)
    monkeypatch.setattr(fused, "BLOCK", 16)


def some(count, size=999):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, generator=generator) for _ in range(count)]


def vectors():
    return sum(type(one) is Vector for one in gc.get_objects())


EXPRESSIONS = [
    lambda a, b, eta: a - eta * b,
    lambda a, b, eta: (1 - eta) * a + eta * b,
    lambda a, b, eta: 2 / (abs(a) + 1) - (3 - b) ** 2 / 7,
    lambda a, b, eta: (a * a + 0.5) ** 0.5 / (eta / (2 * eta)) + -b,
    lambda a, b, eta: a * (a > b) + b * (b >= a) + a * (a < 0) + b * (b <= 0.5),
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_is_noted_is_computed_to_the_same_bits(expression):
    a, b = some(2)
    (made,) = computed([expression(Vector(a), Vector(b), Number(0.3))])
    assert torch.equal(made, expression(a, b, torch.tensor(0.3, dtype=torch.float64)))
    assert torch.equal(expression(a, b, Number(0.3)), made)  # as agents without rounds compute


def test_results_stand_where_nobody_needs_it_and_what_is_kept_stays():
    own, first, second, g, m = some(5)
    before = [a.clone() for a in (own, m, g)]
    right = first * 0.25
    right = right.add_(own, alpha=0.5).add_(second, alpha=0.25)
    mixed, gradient = weighted([first, second], [0.25, 0.25], own, 0.5), Vector(g, spent=True)
    x, y, kept = computed([mixed - 0.1 * gradient, gradient - Vector(m), gradient], last=True)
    assert {x.data_ptr(), y.data_ptr()} == {first.data_ptr(), second.data_ptr()}
    assert kept is g
    for a, was in zip((own, m, g), before, strict=True):
        assert torch.equal(a, was)
    assert torch.equal(x, right - 0.1 * g)
    assert torch.equal(y, g - m)


STEPS = [
    lambda a, b: a + b,
    lambda a, b: a - 0.0 * b,
    lambda a, b: (1 - Number(0.3)) * a + -b,
    lambda a, b: abs(a) * b,
    lambda a, b: a / b,
    lambda a, b: 2 / a,
    lambda a, b: b**-2,
    lambda a, b: a * (b > 0),
    lambda a, b: fused._noted(partial(torch.add, alpha=0.5), a, b),  # as what is received is added up
]
BAD = st.sampled_from([0.0, 1.0, -2.0, 3e38, float("inf"), float("-inf"), float("nan")])
BRANCHES = st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 20), st.integers(0, 20))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # which is the same for all
@given(
    st.lists(st.lists(BAD, min_size=7, max_size=7), min_size=2, max_size=3), st.lists(BRANCHES, min_size=1), st.data()
)
def test_what_is_not_finite_shows_in_an_array_that_is_looked_at(rows, branches, data):
    """Any program, and any of its arrays as the state: what is in one that is not looked at is in one that is."""
    made = [Vector(torch.tensor(row)) for row in rows]
    for step, one, other in branches:
        made.append(STEPS[step](made[one % len(made)], made[other % len(made)]))
    state = data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=4, unique_by=id))
    bad = [~a.isfinite() for a in computed(state, last=True)]
    seen = torch.stack([torch.zeros(7, dtype=torch.bool), *(b for a, b in zip(state, bad, strict=True) if not a.shows)])
    assert all((b <= seen.any(dim=0)).all() for b in bad)


def test_one_sum_is_enough_for_biased_dmt():
    x, v, m, g = map(Vector, some(4))
    new = (1 - 0.1) * m + 0.1 * g
    tracker = v + new - m
    state = [x - 0.2 * tracker, new, tracker]
    computed(state, last=True)
    assert [a.shows for a in state] == [False, True, True]


@pytest.mark.parametrize("overlap", [None, False])
def test_groups_with_rates_of_their_own_and_nothing_is_left_behind(overlap):
    (mine, f), (theirs, g) = problem(), problem()
    sgd = torch.optim.SGD([{"params": theirs[:1]}, {"params": theirs[1:], "lr": 0.02}], 0.1, 0.7, 0.7)
    groups = [{"params": mine[:1]}, {"params": mine[1:], "lr": 0.02}]
    optimizer = Decentralized(groups, gs.BiasedDMT(eta=0.1, lam=0.3), overlap=overlap)
    gc.collect()
    before = vectors()
    gc.disable()
    try:
        steps(optimizer, f, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 7))
        left = vectors() - before
    finally:
        gc.enable()
    steps(sgd, g, torch.optim.lr_scheduler.CosineAnnealingLR(sgd, 7))
    same(mine, theirs)
    assert left == 0  # or else their memory would wait for the garbage collector
