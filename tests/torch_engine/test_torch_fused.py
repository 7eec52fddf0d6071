"""Arithmetic that is noted down and done block by block: the same bits, in memory that nobody needs any more."""

import gc

import pytest
import torch

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


@pytest.mark.parametrize("overlap", [None, False])
def test_groups_with_rates_of_their_own_and_nothing_is_left_behind(overlap):
    (mine, f), (theirs, g) = problem(), problem()
    sgd = torch.optim.SGD([{"params": theirs[:1]}, {"params": theirs[1:], "lr": 0.02}], 0.1, 0.7, 0.7)
    groups = [{"params": mine[:1]}, {"params": mine[1:], "lr": 0.02}]
    optimizer = Decentralized(groups, gs.BiasedDMT(eta=0.1, lam=0.3), overlap=overlap)
    gc.collect()
    gc.disable()
    try:
        steps(optimizer, f, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 7))
        left = sum(type(one) is Vector for one in gc.get_objects())
    finally:
        gc.enable()
    steps(sgd, g, torch.optim.lr_scheduler.CosineAnnealingLR(sgd, 7))
    same(mine, theirs)
    assert left == 0  # or else their memory would wait for the garbage collector
