"""What changes under an optimizer between two steps is refused, in place of a wrong answer. One process."""

import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized, SplitSampler, resume, save
from tests.torch_engine.small import problem, steps, weight


def double(p):
    p.data.mul_(2)


def in_half(p):
    p.data = p.data.float()


def larger(p):
    p.data = torch.zeros(5, 5, dtype=torch.float64)


def freeze(p):
    p.requires_grad_(False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (double, r"parameter 0 \(from 0; 1 in all\) was written into since the optimizer did"),
        (
            in_half,
            r"parameter 0 .* was trained, torch.float64 \(3, 3\) on cpu when .* made, and is trained, torch.float32",
        ),
        (
            larger,
            r"parameter 0 .* was trained, torch.float64 \(3, 3\) .* and is trained, torch.float64 \(5, 5\) on cpu now",
        ),
        (
            freeze,
            r"parameter 0 .* and is frozen, torch.float64 \(3, 3\) on cpu now: convert, move, freeze and unfreeze",
        ),
    ],
)
def test_parameters_that_a_script_changes_are_refused(change, message):
    params, loss = problem()
    optimizer = Decentralized(params, gs.BiasedDMT(eta=0.1, lam=0.3))
    steps(optimizer, loss, count=2)
    change(params[0])
    with pytest.raises(gs.InputError, match=message):
        optimizer.step()


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


def test_a_seed_is_a_whole_number():
    with pytest.raises(TypeError):
        Decentralized([weight()], gs.DPSGD(0.1), seed=1.5)


def test_half_precision_is_measured_in_double():
    """60,000 squared is far beyond float16."""
    x = torch.nn.Parameter(torch.full((2,), 6e4, dtype=torch.float16))
    optimizer = Decentralized([x], gs.DPSGD(eta=0.1))
    assert optimizer.consensus_error() == 0.0
    with optimizer.average_model():
        assert torch.equal(x.detach(), torch.full((2,), 6e4, dtype=torch.float16))
