"""What changes under an optimizer between two steps is refused, in place of a wrong answer. One process."""

from functools import partial

import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized, SplitSampler, resume, save
from tests.torch_engine.small import problem, same, steps, weight


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"rule": gs.DPSGD(eta=0.1)}, partial(torch.optim.SGD, lr=0.1)),
        ({"rule": gs.DPSGDATC(eta=0.1)}, partial(torch.optim.SGD, lr=0.1)),
        ({"rule": gs.BiasedDMT(eta=0.1, lam=0.3)}, partial(torch.optim.SGD, lr=0.1, momentum=0.7, dampening=0.7)),
        ({"rule": gs.SGP(eta=0.1, beta=0.7)}, partial(torch.optim.SGD, lr=0.1, momentum=0.7)),
        (
            {"rule": gs.DPSGD(eta=1.0), "inner": partial(torch.optim.AdamW, lr=0.1), "local_steps": 3},
            partial(torch.optim.AdamW, lr=0.1),
        ),
    ],
    ids=["ahead", "in phase", "momentum", "push-sum", "inner"],
)
def test_what_is_frozen_later_stops_and_the_rest_goes_on_as_with_pytorch(ours, theirs):
    """Also where its last gradient is still there; and once it is trained again, it moves again."""
    (mine, f), (reference, g) = problem(), problem()
    optimizer, other = Decentralized(mine, **ours), theirs(reference)
    steps(optimizer, f, count=4)
    steps(other, g, count=4)
    kept = mine[0].detach().clone()
    for p in (mine[0], reference[0]):
        p.requires_grad_(False)
    reference[0].grad = None
    f(4).backward()  # the gradient of the frozen one is that of before
    optimizer.step()
    optimizer.step() if "inner" not in ours else None
    g(4).backward()
    other.step()
    other.step() if "inner" not in ours else None
    steps(optimizer, f, count=4, first=5)
    steps(other, g, count=4, first=5)
    same(mine, reference)
    assert torch.equal(mine[0], kept)
    mine[0].requires_grad_(True)
    steps(optimizer, f, count=3)
    assert not torch.equal(mine[0], kept)


def test_what_is_frozen_stays_over_a_resume(tmp_path):
    def half(model, optimizer, loss):
        model[0].requires_grad_(False)
        steps(optimizer, loss, count=2, first=3)
        return [p.detach().clone() for p in model]

    def made():
        params, loss = problem()
        return torch.nn.ParameterList(params), Decentralized(params, gs.DSGT(eta=0.1)), loss

    model, optimizer, loss = made()
    steps(optimizer, loss, count=3)
    before = half(model, optimizer, loss)
    save(tmp_path, 5, model, optimizer)
    straight = half(model, optimizer, loss)
    again, other, new_loss = made()
    assert resume(tmp_path, again, other) == 5
    resumed = half(again, other, new_loss)
    for a, b, c in zip(before[:1], straight[:1], resumed[:1], strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)
    assert torch.equal(straight[1], resumed[1])


def test_a_parameter_is_given_once():
    x = weight()
    with pytest.warns(UserWarning, match="duplicate"), pytest.raises(gs.InputError, match="is given twice"):
        Decentralized([x, x], gs.DPSGD(eta=0.1))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: Decentralized([weight(torch.float64)], gs.DPSGD(0.1)),
            "of type = 'torch.float32', .* has 'torch.float64'",
        ),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), seed=1), "of seed = 0, but the optimizer has 1"),
    ],
)
def test_a_state_of_another_type_or_seed_is_refused(made, message):
    saved = Decentralized([weight()], gs.DPSGD(0.1)).state_dict()
    with pytest.raises(gs.InputError, match=message):
        made().load_state_dict(saved)


@pytest.mark.parametrize(
    "other", [None, {"batch": 4, "seed": 0}, {"batch": 8, "seed": 1}], ids=["none", "other batch", "other seed"]
)
def test_a_place_in_other_data_is_refused(other, tmp_path):
    model = torch.nn.Linear(1, 1)
    optimizer = Decentralized(model.parameters(), gs.DPSGD(eta=0.1))
    sampler = SplitSampler(range(40), 8, split="iid")
    save(tmp_path, 0, model, optimizer, sampler)
    given = None if other is None else SplitSampler(range(40), split="iid", **other)
    with pytest.raises(
        gs.InputError, match=r"was saved with a sampler of 40 rows \w+ in 5 batches of 8 by seed 0, but is"
    ):
        resume(tmp_path, model, optimizer, given)
    assert resume(tmp_path, model, optimizer, sampler) == 0


def test_half_precision_is_measured_in_double():
    """60,000 squared is far beyond float16."""
    x = torch.nn.Parameter(torch.full((2,), 6e4, dtype=torch.float16))
    optimizer = Decentralized([x], gs.DPSGD(eta=0.1))
    assert optimizer.consensus_error() == 0.0
    with optimizer.average_model():
        assert torch.equal(x.detach(), torch.full((2,), 6e4, dtype=torch.float16))
