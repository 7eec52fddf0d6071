"""What a GPU asks for, as far as a CPU can show it: one call for all messages, no waits, numbers read a step late."""

from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from gossamer.torch.gpus import LateFlag, check_device, looks

import gossamer as gs
from gossamer.torch import Decentralized, NotFinite
from gossamer.torch.exchange import Exchange
from gossamer.torch.world import ProcessWorld
from tests.torch_engine import forked, quadratics
from tests.torch_engine.small import problem, steps


def grouped(rank, size):
    """Where a few cases end, with messages one by one and in one call for all of them, as NCCL has it."""
    some = ("biased-dmt, graph", "choco-sgd, ring", "push-pull-dmt, graph", "one-peer", "own radius")
    cases = quadratics.simulated_cases(size) | quadratics.plain_cases(size)
    found = {name: [walked(rank, size, cases[name], together) for together in (False, True)] for name in some}
    found["in pieces"] = [long(rank, together) for together in (False, True)]
    torch.distributed.barrier()  # nobody leaves before the last message, which overlaps a gradient, is there
    return found


def walked(rank, size, case, together):
    halves, loss = quadratics.model(rank, size)
    rule, network = case
    quadratics.train(made(halves, rule, network, together), loss, 6)
    return quadratics.joined(halves)


def made(params, rule, network, together):
    # the first message may leave while it is made
    with mock.patch.object(Exchange, "grouped", property(lambda _: together, lambda *_: None), create=True):
        optimizer = Decentralized(params, rule, network, timeout=30)
    optimizer.exchange.grouped = together
    return optimizer


def long(rank, together):
    """Messages of two pieces, each longer than what is packed."""
    x = torch.nn.Parameter(torch.zeros(100_000, dtype=torch.float64))
    optimizer = made([x], gs.BiasedDMT(eta=0.1, lam=0.5), "ring", together)
    for _ in range(3):
        optimizer.zero_grad()
        (x - rank * torch.linspace(0, 1, 100_000)).square().sum().backward()
        optimizer.step()
    return x.detach()[::1000].numpy()


def test_messages_in_one_call_have_the_same_bits_as_one_by_one():
    for found in forked.run(grouped, 4):
        for name, (apart, together) in found.items():
            assert np.array_equal(apart, together), name
            assert np.abs(apart).max() > 0


def test_a_flag_is_read_one_turn_later():
    flag, seen = LateFlag(), []
    for given in ([False], [False, True], [], [True], [False]):
        for one in given:
            flag.put(torch.tensor(one))
        seen.append(flag.turn())
    assert seen == [False, False, True, False, True]


def test_what_is_not_finite_is_found_one_step_late():
    params, loss = problem()
    optimizer = Decentralized(params, gs.DPSGD(eta=0.1))
    optimizer.guard.late = LateFlag()  # as on a GPU
    steps(optimizer, loss, count=2)
    loss(2).backward()
    params[0].grad[0, 0] = float("nan")
    optimizer.step()
    with pytest.raises(NotFinite, match="inf or NaN in its gradient or its state of step 3, or got them from a"):
        optimizer.step()


def test_on_a_gpu_nothing_is_given_a_time_to_wait_for():
    """With one, a work of NCCL stops the host until it is done."""
    waited = []
    work = SimpleNamespace(wait=lambda *timeout: waited.append(timeout))
    for kind in ("cuda:0", "cpu"):
        ProcessWorld.wait(SimpleNamespace(device=torch.device(kind), timeout=7), work)  # pyright: ignore
    assert waited == [(), (7,)]


def test_parameters_are_compared_always_on_a_cpu_and_now_and_then_on_a_gpu():
    assert all(looks(step, torch.device("cpu")) for step in range(1, 300))
    assert [step for step in range(1, 300) if looks(step, torch.device("cuda:0"))] == [1, 2, 3, 100, 200]


def test_another_gpu_than_the_current_one_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    check_device(torch.device("cuda:0"))
    check_device(torch.device("cpu"))
    with pytest.raises(
        gs.InputError, match=r"are on cuda:1, but the current GPU .* is cuda:0, .* torch.cuda.set_device"
    ):
        check_device(torch.device("cuda:1"))
