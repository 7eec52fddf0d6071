"""When messages leave: after a step, or with the next one. The iterates are the same."""

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized, NotFinite, flat
from tests.torch_engine import forked
from tests.torch_engine.small import problem, steps

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


def trained(rank, size, span):
    """Where every rule ends by each way."""
    flat.SPAN = span // 2
    found = {}
    for name, rule in RULES.items():
        for overlap in (True, False):
            for decay in (0.0, 0.1):
                if decay and name == "d-adamw":
                    continue
                model, loss = perceptron(rank)
                optimizer = Decentralized(
                    model.parameters(), rule, "ring", overlap=overlap, weight_decay=decay, timeout=30
                )
                for _ in range(6):
                    optimizer.zero_grad()
                    loss().backward()
                    optimizer.step()
                messages = 2 * (4 if span == 16 and not overlap else 1)  # one for each span, to each of two neighbours
                before = optimizer.counters.messages
                optimizer.zero_grad()
                loss().backward()
                optimizer.step()
                assert optimizer.counters.messages - before == messages
                found[name, overlap, decay] = optimizer.flat.read().numpy()
    return found


@pytest.mark.parametrize("span", [10**6, 16], ids=["one span", "four spans"])
def test_both_ways_have_the_same_iterates_on_four_ranks(span):
    ranks = forked.run(trained, 4, span)
    for found in ranks:
        for (name, overlap, decay), ended in found.items():
            np.testing.assert_allclose(
                ended, found[name, True, decay], rtol=1e-12, atol=1e-13, err_msg=f"{name} {overlap}"
            )


def test_weights_written_in_halves_are_the_model_as_well():
    x = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = Decentralized([x], gs.DPSGD(eta=0.5), overlap=False)
    for _ in range(2):
        x.grad = torch.ones_like(x)
        optimizer.step()
        x.data.mul_(0.5)
    assert x.tolist() == [-0.125, -0.125]


def test_a_rule_that_asks_elsewhere_says_so_where_weights_were_written():
    params, loss = problem()
    optimizer = Decentralized(params, gs.GNSD(eta=0.1), overlap=False)
    steps(optimizer, loss, count=1)
    params[0].data.add_(1)
    loss().backward()
    with pytest.raises(gs.InputError, match="gnsd asks for gradients at other points than its model"):
        optimizer.step()


def test_a_bad_gradient_is_named_where_others_have_none():
    params, _ = problem()
    optimizer = Decentralized(params, gs.DPSGD(eta=0.1))
    params[1].grad = torch.full_like(params[1], float("nan"))
    with pytest.raises(NotFinite, match=r"NaN in 3 of 3 numbers, first in parameter 1 \(from 0\) of shape \(3,\)"):
        optimizer.step()


def test_a_rule_that_needs_its_neighbours_first_cannot_overlap():
    params, _ = problem()
    with pytest.raises(gs.InputError, match="overlap=True cannot be: gnsd needs what its neighbours send"):
        Decentralized(params, gs.GNSD(eta=0.1), overlap=True)
