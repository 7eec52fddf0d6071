"""When messages leave: after a step, with the next one, or from backward. The iterates are the same."""

import gc
import weakref

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized, NotFinite, buckets
from tests.torch_engine import forked
from tests.torch_engine.small import problem, same, steps

RULES = {
    "biased-dmt": gs.BiasedDMT(eta=0.1, lam=0.3),
    "d-psgd": gs.DPSGD(eta=0.1),
    "d-adamw": gs.DAdamW(eta=0.05),
    "biased-dsgd": gs.BiasedDSGD(eta=0.1),
}


def perceptron(rank):
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)
    ).double()
    x = torch.randn(4, 8, 3, generator=generator, dtype=torch.float64)[rank]
    return model, lambda: (model(x) - x.sum(1, keepdim=True)).square().mean() * (1 + rank)


def trained(rank, size, smallest):
    """Where every rule ends by each way. Small buckets are computed in chunks of eight numbers."""
    buckets.SMALLEST = smallest
    buckets.CHUNK = 8 if smallest < 1000 else buckets.CHUNK
    found = {}
    for name, rule in RULES.items():
        for overlap in (True, False, "backward"):
            for decay in (0.0, 0.1):
                if decay and name == "d-adamw":
                    continue
                model, loss = perceptron(rank)
                optimizer = Decentralized(
                    model.parameters(), rule, "ring", overlap=overlap, weight_decay=decay, timeout=30
                )
                assert len(optimizer._buckets) == (1 if smallest > 1000 or overlap is True else 4)
                for _ in range(6):
                    optimizer.zero_grad()
                    loss().backward()
                    optimizer.step()
                found[name, overlap, decay] = optimizer.flat.read().numpy()
    return found


@pytest.mark.parametrize("smallest", [10**6, 16], ids=["one bucket", "four buckets"])
def test_all_ways_have_the_same_iterates_on_four_ranks(smallest):
    ranks = forked.run(trained, 4, smallest)
    for found in ranks:
        for (name, overlap, decay), ended in found.items():
            np.testing.assert_allclose(
                ended, found[name, True, decay], rtol=1e-12, atol=1e-13, err_msg=f"{name} {overlap}"
            )


def test_weights_written_after_a_step_are_the_model_where_messages_leave_late():
    """Projected gradient descent: in one process D-PSGD then is PyTorch's SGD with the same projection."""
    (mine, f), (theirs, g) = problem(), problem()
    for params, loss, optimizer in (
        (mine, f, Decentralized(mine, gs.DPSGD(eta=0.3), overlap=False)),
        (theirs, g, torch.optim.SGD(theirs, lr=0.3)),
    ):
        for k in range(8):
            optimizer.zero_grad()
            loss(k).backward()
            optimizer.step()
            with torch.no_grad():
                for p in params:
                    p.clamp_(-0.2, 0.2)
    same(mine, theirs)
    assert max(p.abs().max() for p in mine) == 0.2


def test_weights_written_in_halves_are_the_model_as_well():
    x = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = Decentralized([x], gs.DPSGD(eta=0.5), overlap=False)
    for _ in range(2):
        x.grad = torch.ones_like(x)
        optimizer.step()
        x.data.mul_(0.5)
    assert x.tolist() == [-0.125, -0.125]


@pytest.mark.parametrize("write", [lambda p: p.detach().add_(1), lambda p: p.data.add_(1)])
def test_weights_written_while_messages_travel_are_refused_with_the_way_out(write):
    params, loss = problem()
    optimizer = Decentralized(params, gs.DPSGD(eta=0.1))
    steps(optimizer, loss, count=1)
    write(params[0])
    loss().backward()
    with pytest.raises(gs.InputError, match=r"parameter 0 .* was written into .* give overlap=False, and what is"):
        optimizer.step()


def test_a_rule_that_asks_elsewhere_says_so_where_weights_were_written():
    params, loss = problem()
    optimizer = Decentralized(params, gs.GNSD(eta=0.1), overlap=False)
    steps(optimizer, loss, count=1)
    params[0].data.add_(1)
    loss().backward()
    with pytest.raises(gs.InputError, match="gnsd asks for gradients at other points than its model"):
        optimizer.step()


def made(**options):
    params, loss = problem()
    return params, loss, Decentralized(params, gs.BiasedDMT(eta=0.1, lam=0.3), overlap="backward", **options)


def test_backward_twice_before_a_step_is_refused():
    _, loss, _ = made()
    loss().backward()
    with pytest.raises(gs.InputError, match=r"backward ran twice before a step, .* leave it out where gradients are"):
        loss().backward()


def test_a_scaler_cannot_see_gradients_that_backward_took():
    _, loss, optimizer = made()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(loss()).backward()
    with pytest.raises(gs.InputError, match="takes gradients before a GradScaler has seen them"):
        scaler.step(optimizer)


def test_an_optimizer_that_is_gone_takes_nothing():
    """Hooks of parameters that outlive it."""
    params, loss, optimizer = made()
    steps(optimizer, loss, count=1)
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None
    steps(Decentralized(params, gs.BiasedDMT(eta=0.1, lam=0.3), overlap="backward"), loss, count=2)


def test_a_bad_gradient_is_named_where_others_have_none():
    params, _ = problem()
    optimizer = Decentralized(params, gs.DPSGD(eta=0.1))
    params[1].grad = torch.full_like(params[1], float("nan"))
    with pytest.raises(NotFinite, match=r"NaN in 3 of 3 numbers, first in parameter 1 \(from 0\) of shape \(3,\)"):
        optimizer.step()


def test_parameters_without_a_gradient_wait_for_the_step():
    """As where a part of the model had no part in the loss."""
    (mine, _, ours), (theirs, _) = made(), problem()
    other = Decentralized(theirs, gs.BiasedDMT(eta=0.1, lam=0.3))
    for params, optimizer in ((mine, ours), (theirs, other)):
        for _ in range(3):
            optimizer.zero_grad()
            params[0].square().sum().backward()
            optimizer.step()
    same(mine, theirs)


def test_a_gradient_that_is_not_finite_stops_in_backward():
    _, loss, _ = made()
    with pytest.raises(NotFinite, match=r"rank 0's gradient at step 1 is not finite"):
        (loss() * float("inf")).backward()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_nonfinite": "skip"}, "on_nonfinite"),
        ({"inner": lambda groups: torch.optim.SGD(groups, lr=0.1)}, "an inner optimizer"),
    ],
)
def test_what_wants_to_see_gradients_first_is_refused(options, message):
    with pytest.raises(gs.InputError, match=f'overlap="backward" cannot stand beside {message}'):
        made(**options)


def test_a_rule_that_needs_its_neighbours_first_cannot_overlap():
    params, _ = problem()
    with pytest.raises(gs.InputError, match="overlap='backward' cannot be: gnsd needs what its neighbours send"):
        Decentralized(params, gs.GNSD(eta=0.1), overlap="backward")
