"""A rank with inf or NaN stops all ranks by its name, or all leave the step out."""

import re

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized, NotFinite, faults
from gossamer.torch.faults import LONGEST_ROW
from tests.torch_engine import bad_numbers, forked
from tests.torch_engine.bad_numbers import BAD, STEP, STEPS
from tests.torch_engine.small import problem, weight

RULES = {"first": gs.BiasedDMT(eta=0.05, lam=0.3), "second": gs.GTHSGD(eta=0.05, a=0.3)}


@pytest.mark.parametrize("where", RULES)
def test_all_ranks_name_the_one_whose_gradient_is_not_finite(where):
    with forked.Ranks(bad_numbers.one_gradient, 4, RULES[where], where, {}) as ranks:
        found = ranks.results(60)
    numbers = 6 if where == "first" else 12
    for rank, failed in enumerate(found):
        assert failed.kind == "NotFinite", failed.trace
        assert f"rank 2's gradient at step {STEP} is not finite (inf or NaN in 2 of {numbers} numbers, first in " in (
            failed.message
        )
        assert "parameter 1 (from 0) of shape (1, 4)). Look at its loss" in failed.message
        assert 'on_nonfinite="skip"' in failed.message
        assert (f"(Rank {rank} stops because of it.)" in failed.message) == (rank != BAD)
    assert max(failed.when for failed in found) - found[BAD].when < 5  # not after the timeout of 30 s


@pytest.mark.parametrize("where", RULES)
def test_a_step_is_left_out_on_all_ranks(where):
    """The iterates are those of a run without this step; with a closure or not, only that step stands still."""
    found = forked.run(bad_numbers.one_gradient, 4, RULES[where], where, {"on_nonfinite": "skip"})
    clean = forked.run(bad_numbers.one_gradient, 4, RULES[where], "none" if where == "first" else "none of two", {})
    for (path, skipped), (straight, none) in zip(found, clean, strict=True):
        assert (skipped, none) == (1, 0)
        np.testing.assert_array_equal(path[STEP - 1], path[STEP - 2])
        np.testing.assert_array_equal(path[: STEP - 1] + path[STEP:], straight[: STEPS - 1])


def test_a_state_that_overflows_is_named_by_all():
    with forked.Ranks(bad_numbers.diverging, 4) as ranks:
        found = ranks.results(60)
    for failed in found:
        assert failed.kind == "NotFinite", failed.trace
        assert re.search(
            r"^rank 2's state at step [45] is not finite: \w of biased-dmt has inf or NaN in 2 of 2", failed.message
        )
        assert "diverged beyond float32: go on from an earlier checkpoint with a smaller lr" in failed.message


def test_an_error_in_a_step_of_one_rank_is_told_to_all():
    with forked.Ranks(bad_numbers.in_the_closure, 4) as ranks:
        found = ranks.results(60)
    assert [failed.kind for failed in found] == ["NeighborLost", "NeighborLost", "KeyError", "NeighborLost"]
    for rank in (0, 1, 3):
        assert found[rank].ranks == (BAD,)
        assert found[rank].message == (
            f"rank {rank} lost rank 2, which stopped at step 1 by KeyError: 'a row that is not there'"
        )


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_one_process_stops_before_the_rule_has_the_gradient(bad):
    params, loss = problem()
    optimizer = Decentralized(params, gs.BiasedDMT(eta=0.1, lam=0.3))
    for k in range(2):
        optimizer.zero_grad()
        loss(k).backward()
        optimizer.step()
    before = [p.detach().clone() for p in params]
    params[1].grad[2] = bad
    with pytest.raises(
        NotFinite, match=r"rank 0's gradient at step 3 .* 1 of 12 numbers, first in parameter 1"
    ) as caught:
        optimizer.step()
    assert (caught.value.rank, caught.value.step) == (0, 3)
    assert all(torch.equal(a, b) for a, b in zip(before, params, strict=True))
    optimizer.zero_grad()  # nothing has happened: the script may go on with another gradient
    loss(3).backward()
    optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_large_finite_numbers_are_not_taken_for_infinite_ones(dtype):
    """Their sum may be: 60,000 twice is beyond float16, 2e38 twice beyond the others."""
    largest = 6e4 if dtype == torch.float16 else 2e38
    x = torch.nn.Parameter(torch.full((2,), largest, dtype=dtype))
    optimizer = Decentralized([x], gs.DPSGD(eta=0.25))
    x.grad = torch.full_like(x, largest)
    optimizer.step()
    assert torch.isfinite(x).all()
    assert (x < largest).all()


def test_a_start_that_is_not_finite_is_refused():
    x = weight()
    with torch.no_grad():
        x[1] = float("nan")
    with pytest.raises(NotFinite, match="rank 0's start is not finite: x of d-psgd has inf or NaN in 1 of 2 numbers"):
        Decentralized([x], gs.DPSGD(eta=0.1))


def test_on_nonfinite_must_be_known():
    with pytest.raises(gs.InputError, match='on_nonfinite must be "stop" or "skip", but is \'ignore\''):
        Decentralized([weight()], gs.DPSGD(eta=0.1), on_nonfinite="ignore")


@pytest.mark.parametrize("mode", ["stop", "skip"])
def test_overflows_without_end_are_not_the_scale(mode):
    """A scale that was halved 40 times does not overflow any more: the gradient itself is not finite."""
    x = weight()
    optimizer = Decentralized([x], gs.DPSGD(eta=0.1), on_nonfinite=mode)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)

    def step(bad):
        optimizer.zero_grad()
        scaler.scale(x.sum() * (float("nan") if bad else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()

    for bad in [True] * (LONGEST_ROW - 1) + [False] + [True] * (LONGEST_ROW - 1):
        step(bad)
    assert optimizer.counters.overflows == 2 * (LONGEST_ROW - 1)
    assert optimizer.counters.skipped == (optimizer.counters.overflows if mode == "skip" else 0)
    with pytest.raises(NotFinite, match="in each of the last 40 steps: nothing is trained"):
        step(True)


def test_words_of_any_length_arrive_whole_or_cut():
    said = faults.Words(3, 1, 7, "InputError", "ä" * 5000)
    assert said.pack().numel() == faults.LENGTH
    heard = faults.Words.read(said.pack())
    assert heard.message.startswith("äää")
    assert heard.message.endswith("…")
    short = faults.Words(3, 1, 7, "InputError", "short")
    assert faults.Words.read(short.pack()) == short
