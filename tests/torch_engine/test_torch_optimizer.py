"""`Decentralized` is an optimizer of PyTorch: groups, schedulers, closures, accumulation, mixed precision, state.

Here the world is one process, where D-PSGD is SGD and Biased-DMT is momentum SGD: PyTorch's own SGD is the answer.
"""

import copy
import gc
import random
import weakref

import networkx as nx
import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized

STEPS = 8


def problem(seed=0):
    """Two parameters, and a loss that changes with the step."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, 40, 3, generator=generator, dtype=torch.float64)
    start = [torch.randn(3, 3, generator=generator, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)]
    params = [torch.nn.Parameter(a.clone()) for a in start]

    def loss(k=0):
        rows = slice(4 * k, 4 * k + 4)
        return ((torch.tanh(x[rows] @ params[0]) + params[1] - y[rows]) ** 2).mean()

    return params, loss


def steps(optimizer, loss, scheduler=None, count=STEPS, first=0):
    for k in range(first, first + count):
        optimizer.zero_grad()
        loss(k).backward()
        optimizer.step()
        if scheduler:
            scheduler.step()


def same(mine, theirs, **tolerance):
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13, **tolerance)


def test_one_process_of_d_psgd_is_sgd():
    (mine, f), (theirs, g) = problem(), problem()
    steps(Decentralized(mine, gs.DPSGD(eta=0.1)), f)
    steps(torch.optim.SGD(theirs, lr=0.1), g)
    same(mine, theirs)


def test_one_process_of_biased_dmt_is_momentum_sgd():
    """x⁺ = x − ηm with m⁺ = (1−λ)m + λg, m⁰ = g⁰: SGD with momentum and dampening 1 − λ."""
    (mine, f), (theirs, g) = problem(), problem()
    steps(Decentralized(mine, gs.BiasedDMT(eta=0.1, lam=0.3)), f)
    steps(torch.optim.SGD(theirs, lr=0.1, momentum=0.7, dampening=0.7), g)
    same(mine, theirs)


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


def test_a_warm_up_that_starts_after_the_optimizer_is_made_counts_from_the_first_step():
    (mine, f), (theirs, g) = problem(), problem()
    ours, sgd = Decentralized(mine, gs.DPSGD(eta=0.1)), torch.optim.SGD(theirs, lr=0.1)
    steps(ours, f, torch.optim.lr_scheduler.LinearLR(ours, 0.1, total_iters=5))
    steps(sgd, g, torch.optim.lr_scheduler.LinearLR(sgd, 0.1, total_iters=5))
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


def test_gradients_may_be_accumulated_and_clipped():
    (mine, f), (theirs, g) = problem(), problem()
    for params, loss, optimizer in (
        (mine, f, Decentralized(mine, gs.DPSGD(eta=0.1))),
        (theirs, g, torch.optim.SGD(theirs, lr=0.1)),
    ):
        for k in range(4):
            optimizer.zero_grad()
            for half in (2 * k, 2 * k + 1):
                (loss(half) / 2).backward()
            torch.nn.utils.clip_grad_norm_(params, 0.3)
            optimizer.step()
    same(mine, theirs)


def test_parameters_without_a_gradient_stay():
    params, _ = problem()
    optimizer = Decentralized(params, gs.DPSGD(eta=0.1))
    before = params[1].detach().clone()
    params[0].square().sum().backward()
    optimizer.step()
    assert torch.equal(params[1], before)
    optimizer.zero_grad()
    with pytest.raises(gs.InputError, match=r"call loss\.backward\(\) before optimizer\.step\(\)"):
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


@pytest.mark.parametrize("overlap", [None, False])
def test_state_goes_on_with_the_same_bits_under_a_scheduler(overlap):
    """The rate of the suspended round is saved too: the scheduler has moved on by then."""

    def made():
        params, loss = problem()
        optimizer = Decentralized(params, gs.BiasedDMT(eta=0.1, lam=0.3), overlap=overlap)
        return params, loss, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    straight, loss, optimizer, scheduler = made()
    steps(optimizer, loss, scheduler)
    again, loss, optimizer, scheduler = made()
    steps(optimizer, loss, scheduler, 3)
    saved = optimizer.state_dict(), scheduler.state_dict()
    resumed, loss, optimizer, scheduler = made()
    scheduler.load_state_dict(saved[1])
    optimizer.load_state_dict(saved[0])
    assert all(torch.equal(a, b) for a, b in zip(again, resumed, strict=True))
    steps(optimizer, loss, scheduler, STEPS - 3, first=3)
    assert all(torch.equal(a, b) for a, b in zip(straight, resumed, strict=True))


def test_a_state_of_another_rule_is_refused():
    params, _ = problem()
    saved = Decentralized(params, gs.DPSGD(eta=0.1)).state_dict()
    with pytest.raises(gs.InputError, match="this state is of rule = 'd-psgd', but the optimizer has 'gnsd'"):
        Decentralized(params, gs.GNSD(eta=0.1)).load_state_dict(saved)


def test_a_state_of_another_model_is_refused():
    saved = Decentralized([weight()], gs.DPSGD(eta=0.1)).state_dict()
    with pytest.raises(gs.InputError, match="this state is of a model with 2 numbers, but the optimizer's has 4"):
        Decentralized([weight(), weight()], gs.DPSGD(eta=0.1)).load_state_dict(saved)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (gs.BiasedDMT(eta=0.1, lam=0.4), r"rule = 'biased-dmt lam=0\.3', but the optimizer has 'biased-dmt lam=0\.4'"),
        (gs.BiasedDMT(eta=0.2, lam=0.3), None),
    ],
)
def test_a_state_of_other_hyper_parameters_is_refused_but_for_the_rate(rule, message):
    saved = Decentralized([weight()], gs.BiasedDMT(eta=0.1, lam=0.3)).state_dict()
    optimizer = Decentralized([weight()], rule)
    if message is None:
        optimizer.load_state_dict(saved)
        assert optimizer.param_groups[0]["lr"] == 0.1  # the saved rate, as with any optimizer
    else:
        with pytest.raises(gs.InputError, match=message):
            optimizer.load_state_dict(saved)


def test_models_and_optimizers_are_freed():
    """A suspended greenlet must not keep alive what holds it: the collector cannot look into it."""
    alive = []
    for rule in (gs.BiasedDMT(eta=0.1, lam=0.3), gs.DPSGD(eta=0.1), gs.GNSD(eta=0.1)):
        params, loss = problem()
        optimizer = Decentralized(params, rule)
        steps(optimizer, loss, count=2)
        alive += [weakref.ref(params[0]), weakref.ref(optimizer), weakref.ref(optimizer.exchange)]
    del params, loss, optimizer
    gc.collect()
    assert [ref() for ref in alive] == [None] * 9


def test_frozen_parameters_are_left_alone():
    params, _ = problem()
    params[1].requires_grad_(False)
    params[1].fill_(1 / 3)
    optimizer = Decentralized(params, gs.BiasedDMT(eta=0.1, lam=0.3))
    for _ in range(5):
        optimizer.zero_grad()
        (params[0].square().sum() * params[1].sum()).backward()
        optimizer.step()
    assert torch.equal(params[1], torch.full((3,), 1 / 3, dtype=torch.float64))
    assert optimizer.state_dict()["rule"]["state"]["x"].numel() == 9
    params[1].requires_grad_(True)
    optimizer.zero_grad()
    params[1].sum().backward()
    with pytest.raises(gs.InputError, match="was frozen when Decentralized was made has a gradient now"):
        optimizer.step()


def test_weights_that_would_be_lost_are_refused():
    module = torch.nn.Linear(2, 2)
    optimizer = Decentralized(module.parameters(), gs.DPSGD(eta=0.1))
    module(torch.ones(1, 2)).sum().backward()
    module.load_state_dict(module.state_dict())  # the same once more
    optimizer.step()
    with torch.no_grad():
        module.bias.fill_(3.0)
    with pytest.raises(
        gs.InputError, match=r"parameter 1 \(from 0; 1 in all\) was written into .* Load weights before"
    ):
        optimizer.step()


@pytest.mark.parametrize("rule", [gs.DecentLaM(0.1, 0.9), gs.QGDSGDm(0.1, 0.9), gs.DPSGD(0.1)], ids=lambda r: r.name)
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


def test_grad_mode_is_left_as_it_was():
    params, loss = problem()
    optimizer = Decentralized(params, gs.BiasedDMT(eta=0.1, lam=0.3))
    steps(optimizer, loss, count=3)
    assert torch.is_grad_enabled()
    loss().backward()
    with torch.no_grad():
        optimizer.step()
        assert not torch.is_grad_enabled()
    assert not any(value.requires_grad for value in optimizer.state_dict()["rule"]["state"].values())


def weight(dtype=torch.float32):
    return torch.nn.Parameter(torch.zeros(2, dtype=dtype))


@pytest.mark.parametrize(
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
        (lambda: copy.deepcopy(Decentralized([weight()], gs.DPSGD(0.1))), "can be neither copied nor pickled"),
        (
            lambda: Decentralized([weight()], gs.D2(0.1), "ring", overlap=True),
            "overlap=True cannot be: d2 needs",
        ),
        (
            lambda: Decentralized([weight()], gs.DPSGD(0.1), gs.networks.ring(4)),
            "has 4 agents, but there are 1 process",
        ),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), nx.path_graph(3)), "has 3 agents, but there are 1 process"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), 7), "network must be a name, a Network or a networkx graph"),
        (
            lambda: Decentralized([{"params": [weight()], "weight_decay": 0.1}], gs.DPSGD(0.1)),
            "parameter group 0 has 'weight_decay', which Decentralized does not know",
        ),
        (
            lambda: Decentralized([weight()], gs.ChocoSGD(0.1, 0.5, gs.compressors.top_k(3))),
            "keeps more coordinates than the 2",
        ),
        (
            lambda: Decentralized([weight()], gs.DPSGD(0.1)).add_param_group({"params": [weight()]}),
            "give all parameter groups when Decentralized is made",
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
