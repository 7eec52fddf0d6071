"""`Decentralized` is an optimizer of PyTorch: groups, schedulers, closures, accumulation, mixed precision.

Here the world is one process, where D-PSGD is SGD and Biased-DMT is momentum SGD: PyTorch's own SGD is the answer.
"""

import random

import networkx as nx
import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized
from tests.table import table
from tests.torch_engine.small import problem, same, steps, weight


@pytest.mark.parametrize("overlap", [None, False])
@pytest.mark.parametrize(
    ("rule", "momentum"), [(gs.DPSGD(eta=0.1), 0), (gs.BiasedDMT(eta=0.1, lam=0.3), 0.7), (gs.DSGDm(0.1, 0.7), -1)]
)
def test_groups_have_their_own_rate_and_schedulers_turn_it_in_time(rule, momentum, overlap):
    (mine, f), (theirs, g) = problem(), problem()
    groups = [{"params": mine[:1]}, {"params": mine[1:], "lr": 0.02}]
    reference = [{"params": theirs[:1]}, {"params": theirs[1:], "lr": 0.02}]
    if momentum == -1:
        sgd = torch.optim.SGD(reference, lr=0.1, momentum=0.7)
    else:
        sgd = torch.optim.SGD(reference, lr=0.1, momentum=momentum, dampening=momentum)
    optimizer = Decentralized(groups, rule, overlap=overlap)
    steps(optimizer, f, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 7))
    steps(sgd, g, torch.optim.lr_scheduler.CosineAnnealingLR(sgd, 7))
    same(mine, theirs)


def test_schedules_of_the_rule_are_read_at_every_round():
    (mine, f), (theirs, g) = problem(), problem()
    steps(Decentralized(mine, gs.DPSGD(eta=lambda t: 0.1 / (1 + t))), f)
    sgd = torch.optim.SGD(theirs, lr=0.1)
    steps(sgd, g, torch.optim.lr_scheduler.LambdaLR(sgd, lambda t: 1 / (1 + t)))
    same(mine, theirs)


def test_two_schedules_are_refused():
    params, loss = problem()
    optimizer = Decentralized(params, gs.DPSGD(eta=lambda t: 0.1))
    torch.optim.lr_scheduler.StepLR(optimizer, 3)
    loss().backward()
    with pytest.raises(gs.InputError, match="eta of d-psgd is a schedule, and a torch scheduler sets lr too"):
        optimizer.step()


def test_a_closure_sees_the_same_draws_at_both_points():
    """GT-HSGD asks at x⁺ and x on one sample; with λ-free noise that is the same at both, the noise of d cancels."""
    params, _ = problem()
    optimizer = Decentralized(params, gs.GTHSGD(eta=0.1, a=0.5))
    drawn = []

    def closure():
        optimizer.zero_grad()
        drawn.append((torch.rand(()).item(), np.random.rand(), random.random()))
        loss = params[0].square().sum()
        loss.backward()
        return loss

    for _ in range(3):
        assert optimizer.step(closure).item() >= 0
    first, *pairs = drawn
    assert len(pairs) == 4
    assert pairs[0] == pairs[1] != pairs[2] == pairs[3] != first


def test_two_points_without_a_closure_are_refused():
    params, loss = problem()
    optimizer = Decentralized(params, gs.STEM(eta=0.1, a=0.5))
    loss().backward()
    optimizer.step()
    with pytest.raises(
        gs.InputError, match=r"stem asks for gradients at 2 points of the same batch: use optimizer\.step"
    ):
        optimizer.step()


def test_a_full_gradient_without_a_way_to_it_is_refused():
    params, loss = problem()
    optimizer = Decentralized(params, gs.GTSARAH(eta=0.1, recursions=2))
    loss().backward()
    with pytest.raises(gs.InputError, match=r"gt-sarah asks for the gradient over all samples of this rank: use opt"):
        optimizer.step()


LEAD = gs.LEAD(0.1, 0.5, gs.compressors.identity())


@table("rule", [gs.DecentLaM(0.1, 0.9), gs.QGDSGDm(0.1, 0.9), LEAD, gs.DPSGD(0.1)])
def test_a_rate_of_zero_is_refused_by_rules_that_divide_by_it(rule):
    params, loss = problem()
    optimizer = Decentralized(params, rule)
    optimizer.param_groups[0]["lr"] = 0.0
    loss().backward()
    if rule.name == "d-psgd":
        optimizer.step()
        same(params, problem()[0])
    else:
        with pytest.raises(gs.InputError, match=f"{rule.name} divides by lr, which is 0: begin the warm-up with"):
            optimizer.step()


def test_an_overflow_takes_part_with_the_last_finite_gradient():
    params, loss = problem()
    optimizer, scaler = Decentralized(params, gs.DPSGD(eta=0.1)), torch.amp.GradScaler("cpu", init_scale=1024.0)
    given = []
    for poison in (True, False, True):
        optimizer.zero_grad()
        before = [p.detach().clone() for p in params]
        scaler.scale(loss()).backward()
        if poison:
            params[0].grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        given.append([(a - p).detach() / 0.1 for a, p in zip(before, params, strict=True)])
    assert all(torch.equal(g, torch.zeros_like(g)) for g in given[0])
    same(given[2], given[1])
    assert given[1][0].abs().max() > 0
    assert optimizer.counters.overflows == 2


def test_average_and_consensus_of_one():
    module = torch.nn.BatchNorm1d(3)
    optimizer = Decentralized(module.parameters(), gs.DPSGD(eta=0.1))
    with optimizer.average_model(module):
        assert torch.equal(module.weight, torch.ones(3))
    assert optimizer.consensus_error() == 0.0


def test_a_long_run_in_float32_of_a_rule_that_adds_up_rounding_is_noted_once(monkeypatch):
    monkeypatch.setattr("gossamer.torch.optimizer.LONG_RUN", 3)
    single = torch.nn.Parameter(torch.ones(2, dtype=torch.float32))
    double = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    with pytest.warns(UserWarning, match="rounding adds up in d2, so that in float32 .* parameters in float64") as told:
        steps(Decentralized([single], gs.D2(eta=0.1)), lambda k: (single**2).sum())
    assert len(told) == 1
    steps(Decentralized([double], gs.D2(eta=0.1)), lambda k: (double**2).sum())  # warnings are errors here


def test_grad_mode_is_left_as_it_was():
    params, loss = problem()
    optimizer = Decentralized(params, gs.BiasedDMT(eta=0.1, lam=0.3))
    steps(optimizer, loss, count=3)
    assert torch.is_grad_enabled()
    loss().backward()
    with torch.no_grad():
        optimizer.step()
        assert not torch.is_grad_enabled()
    assert not any(value.requires_grad for value in optimizer._rounds.buffers.values())


@table(
    ("make", "message"),
    [
        (lambda: Decentralized([], gs.DPSGD(0.1)), "there are no parameters to train"),
        (
            lambda: Decentralized([weight(), weight(torch.float64)], gs.DPSGD(0.1)),
            "number 1 .* has torch.float64 on cpu",
        ),
        (lambda: Decentralized([weight()], gs.DPSGD), "is not an algorithm: make one as BiasedDMT"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), timeout=0), "timeout must be a number of seconds above 0"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), timeout=float("inf")), "2.592e\\+06 at most, but is inf"),
        (
            lambda: Decentralized([weight().requires_grad_(False)], gs.DPSGD(0.1)),
            "there are no parameters to train: all of them are frozen",
        ),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), timeout="60"), "timeout must be a number .* but is '60'"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), seed=0.5), "seed must be a whole number, but is 0.5"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), module=[weight()]), "module must be the model whose buffers"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), overlap="no"), "overlap must be True or False, but is 'no'"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), elastic="no"), "elastic must be True or False"),
        (lambda: Decentralized(torch.nn.Linear(2, 2), gs.DPSGD(0.1)), "but is a model: give model.parameters"),
        (lambda: Decentralized(weight(), gs.DPSGD(0.1)), "but is one tensor: give a list"),
        (lambda: Decentralized([{"lr": 0.1}], gs.DPSGD(0.1)), "parameter group 0 has no parameters"),
        (lambda: Decentralized([{"params": [weight()], "lr": "a"}], gs.DPSGD(0.1)), "lr of .* number .* but is 'a'"),
        (
            lambda: Decentralized([{"params": [weight()], "lr": abs}], gs.DPSGD(0.1)),
            "lr of parameter group 0 must be a",
        ),
        (
            lambda: Decentralized([weight()], gs.D2(0.1), "ring", overlap=True),
            "overlap=True cannot be: d2 needs",
        ),
        (
            lambda: Decentralized([weight()], gs.DPSGD(0.1), gs.networks.ring(4)),
            "has 4 agents, but there are 1 process",
        ),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), nx.path_graph(3)), "has 3 agents, but there are 1 process"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), 7), "network must be a name, such as .ring., a Network"),
        (
            lambda: Decentralized([weight()], gs.ChocoSGD(0.1, 0.5, gs.compressors.top_k(3))),
            "keeps more coordinates than the 2",
        ),
    ],
)
def test_refuses_before_any_work(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_rate_that_is_not_a_number_is_refused():
    params, loss = problem()
    optimizer = Decentralized(params, gs.DPSGD(eta=0.1))
    optimizer.param_groups[0]["lr"] = float("nan")
    loss().backward()
    with pytest.raises(
        gs.InputError, match="lr of parameter group 0 must be a finite number of at least 0, but is nan"
    ):
        optimizer.step()
