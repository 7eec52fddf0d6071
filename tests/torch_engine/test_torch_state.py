"""What an optimizer holds and owns: its state, the parameters, and nothing once it is gone. One process."""

import gc
import weakref

import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized
from tests.torch_engine.small import STEPS, problem, steps, weight


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


@gs.rule("looks-at-numbers")
class LooksAtNumbers:
    """A rule whose arrays are known only after its start, since it looks at their numbers."""

    eta: gs.StepSize

    def init(self, x, agent):
        g = agent.gradient(x)
        return gs.State(x=x, m=g if float(agent.norm(g)) > 0 else x)

    def step(self, s, agent):
        m = 0.5 * s.m + agent.gradient(s.x)
        return gs.State(x=agent.gossip(s.x) - self.eta * m, m=m)


def test_arrays_that_a_rule_makes_at_its_start_are_loaded_into_an_optimizer_that_has_none_yet():
    straight, loss = problem()
    steps(Decentralized(straight, LooksAtNumbers(eta=0.1)), loss)
    params, loss = problem()
    optimizer = Decentralized(params, LooksAtNumbers(eta=0.1))
    steps(optimizer, loss, count=4)
    saved = optimizer.state_dict()
    params, loss = problem()
    optimizer = Decentralized(params, LooksAtNumbers(eta=0.1))
    optimizer.load_state_dict(saved)
    steps(optimizer, loss, count=STEPS - 4, first=4)
    assert all(torch.equal(a, b) for a, b in zip(straight, params, strict=True))


def test_a_state_of_another_rule_is_refused():
    params, _ = problem()
    saved = Decentralized(params, gs.DPSGD(eta=0.1)).state_dict()
    with pytest.raises(gs.InputError, match="this state is of rule = 'd-psgd', but the optimizer has 'gnsd'"):
        Decentralized(params, gs.GNSD(eta=0.1)).load_state_dict(saved)


def test_a_state_of_another_optimizer_is_refused():
    saved = torch.optim.SGD([weight()], lr=0.1).state_dict()
    with pytest.raises(
        gs.InputError, match=r"this is no state of Decentralized.*: give what its state_dict\(\) returned"
    ):
        Decentralized([weight()], gs.DPSGD(eta=0.1)).load_state_dict(saved)


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
    """A round that waits for a gradient keeps nothing alive."""
    alive = []
    for rule in (gs.BiasedDMT(eta=0.1, lam=0.3), gs.DPSGD(eta=0.1), gs.GNSD(eta=0.1)):
        params, loss = problem()
        optimizer = Decentralized(params, rule)
        steps(optimizer, loss, count=2)
        alive += [weakref.ref(params[0]), weakref.ref(optimizer), weakref.ref(optimizer.exchange)]
    del params, loss, optimizer
    gc.collect()
    assert [ref() for ref in alive] == [None] * 9


@pytest.mark.parametrize("rule", [gs.BiasedDMT(eta=0.1, lam=0.3), gs.DPSGD(eta=0.1), gs.GNSD(eta=0.1)])
def test_a_step_leaves_nothing_to_the_garbage_collector(rule):
    """What waits for it holds arrays as long as the model until it comes."""
    params, loss = problem()
    optimizer = Decentralized(params, rule)
    steps(optimizer, loss, count=2)
    loss(2).backward()
    gc.collect()
    gc.disable()
    try:
        optimizer.step()
        assert gc.collect() == 0
    finally:
        gc.enable()


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
    assert optimizer._rounds.buffers["x"].numel() == 9
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


def test_parameters_are_views_of_the_model_of_a_rule_that_posts_ahead():
    """No copy is held; a state that was taken stays as it was; shared memory and other layouts are left alone."""
    params, loss = problem()
    optimizer = Decentralized(params, gs.DPSGD(eta=0.1))
    steps(optimizer, loss, count=1)
    vector = optimizer.flat.vector
    assert vector is not None
    assert params[0].data_ptr() == vector.data_ptr()
    taken, before = optimizer.state_dict()["state"][0]["x@0"], vector[:9].clone()
    steps(optimizer, loss, count=1)
    assert torch.equal(taken.view(-1), before)
    assert not torch.equal(taken.view(-1), vector[:9])
    shared, turned = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2, 3).t())
    shared.data.share_memory_()
    for p in (shared, turned):
        place, strides = p.data_ptr(), p.stride()
        optimizer = Decentralized([p], gs.DPSGD(eta=0.1))
        p.sum().backward()
        optimizer.step()
        assert (p.data_ptr(), p.stride(), optimizer.flat.vector) == (place, strides, None)
        torch.testing.assert_close(p.detach(), torch.full_like(p, 0.9))
