"""What a GPU asks for, as far as a CPU can show it: no waits of the host, messages in one order, numbers read late.

Nothing here has run on a GPU: `make gpu` is what does. A device is stood in for by its rules. What it computes may not
be read by the host within a step (`Watched`); copies from it arrive when an event of its stream has been waited for
(`Stream`); and messages meet in the order in which they were posted, as NCCL knows no tags.
"""

import subprocess
import sys
from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import gossamer as gs
from benchmarks import torch_gpu
from gossamer.torch import Decentralized, NotFinite, flat
from gossamer.torch.exchange import Exchange
from gossamer.torch.faults import LateFlag
from gossamer.torch.flat import looks
from gossamer.torch.world import ProcessWorld, check_device
from tests.torch_engine import forked, quadratics
from tests.torch_engine.small import problem, steps

CUDA = torch.device("cuda:0")
DMT = gs.BiasedDMT(eta=0.1, lam=0.5)


class Watched(TorchDispatchMode):
    """Notes which operations would make the host wait for a device that has computed these tensors.

    All that is computed from them is the device's too. A copy that does not block goes to the host, and may be read
    there: whether that is waited for first is `Stream`'s matter.
    """

    READS = (torch.ops.aten._local_scalar_dense, torch.ops.aten.equal, torch.ops.aten.nonzero)

    def __init__(self, tensors):
        super().__init__()
        self.reads, self._kept = [], [a.untyped_storage() for a in tensors]  # kept, or their places would be used again
        self._places = {storage.data_ptr() for storage in self._kept}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        of_device = [a.untyped_storage().data_ptr() in self._places for a in given]
        if any(of_device) and func.overloadpacket in self.READS:
            self.reads.append(str(func))
        to_host = func.overloadpacket is torch.ops.aten.copy_ and args[2:] == (True,) and not of_device[0]
        made = func(*args, **kwargs)
        if any(of_device) and not to_host:
            for a in tree_leaves(made):
                if isinstance(a, torch.Tensor):
                    self._kept.append(a.untyped_storage())
                    self._places.add(a.untyped_storage().data_ptr())
        return made


def as_on_a_gpu(make):
    """Make an optimizer, and let it work as on a GPU: gloo then matches messages by their order, as NCCL does."""
    # the first message may leave while it is made
    with mock.patch.object(Exchange, "grouped", property(lambda _: True, lambda *_: None), create=True):
        optimizer = make()
    optimizer.exchange.grouped, optimizer.guard.late = True, LateFlag()
    return optimizer


RULES = {
    "biased-dmt": partial(Decentralized, rule=DMT),
    "biased-dmt, overlap=False": partial(Decentralized, rule=DMT, overlap=False),
    "d-psgd": partial(Decentralized, rule=gs.DPSGD(eta=0.1), weight_decay=0.1),
    "d-adamw": partial(Decentralized, rule=gs.DAdamW(0.1, 0.9, 0.99, 1e-8, 0.1)),
    "gnsd": partial(Decentralized, rule=gs.GNSD(eta=0.1)),
    "sgp": partial(Decentralized, rule=gs.SGP(eta=0.1, beta=0.7)),
    "sgd inside": partial(
        Decentralized, rule=gs.DPSGD(eta=1.0), inner=partial(torch.optim.SGD, lr=0.1, momentum=0.9), local_steps=2
    ),
}


def watched_steps(rank, size):
    """What the host reads of the device in ten steps that are not among the first, for each rule."""
    found = {}
    for name, make in RULES.items():
        params, loss = problem(rank)
        optimizer = as_on_a_gpu(partial(make, params, network="complete", timeout=20))
        steps(optimizer, loss, count=flat.OFTEN)
        with mock.patch("gossamer.torch.optimizer.looks", lambda step, _: looks(step, CUDA)):
            for k in range(4, 10):
                optimizer.zero_grad()
                value = loss(k)
                own = [*params, *optimizer._rounds.buffers.values()]
                with Watched(own) as watched:
                    value.backward()
                    watched._places |= {p.grad.untyped_storage().data_ptr() for p in params}
                    optimizer.step()
                found.setdefault(name, []).extend(watched.reads)
        torch.distributed.barrier()
    return found


def test_the_host_reads_nothing_of_the_device_within_a_step():
    for found in forked.run(watched_steps, 2):
        assert found == {name: [] for name in RULES}


def test_what_watches_a_step_sees_reads():
    a, b = torch.ones(3), torch.ones(3)
    with Watched([a]) as watched:
        assert float((2 * a).sum()) == 6
        assert torch.equal(b, a + 1 - 1)
        assert float(b.sum()) == 3  # the host's own
        there = torch.empty(())
        there.copy_(a.sum(), non_blocking=True)
        float(there)
    assert watched.reads == ["aten._local_scalar_dense.default", "aten.equal.default"]


class Stream:
    """A stream of a device: copies to the host that do not block are done when an event after them is waited for."""

    def __init__(self, monkeypatch):
        self.waiting, self.pinned, stream, real = [], [], self, torch.empty

        class OnDevice(torch.Tensor):
            is_cuda = True

        class Event:
            def record(self):
                self.until = len(stream.waiting)

            def synchronize(self):
                for copy in stream.waiting[: self.until]:
                    copy()
                del stream.waiting[: self.until]

        class Pinned(torch.Tensor):
            def copy_(self, other, non_blocking=False):
                assert non_blocking
                held = other.clone()
                stream.waiting.append(lambda: self.as_subclass(torch.Tensor).copy_(held.as_subclass(torch.Tensor)))
                return self

        def empty(*args, pin_memory=False, **kwargs):
            made = real(*args, **kwargs)
            return made.fill_(False).as_subclass(Pinned) if pin_memory else made

        self.flag = lambda value: torch.tensor(value).as_subclass(OnDevice)
        monkeypatch.setattr(torch, "empty", empty)
        monkeypatch.setattr(torch.cuda, "Event", Event)


@pytest.mark.parametrize("on_device", [False, True])
def test_a_flag_is_read_one_turn_later_when_it_has_arrived(on_device, monkeypatch):
    make = Stream(monkeypatch).flag if on_device else torch.tensor
    flag, seen = LateFlag(), []
    for given in ([False], [False, True], [], [True], [False]):
        for one in given:
            flag.put(make(one))
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


def grouped(rank, size):
    """Where a few cases end, with messages one by one and in one call for all of them, as NCCL has it."""
    some = ("biased-dmt, graph", "choco-sgd, ring", "push-pull-dmt, graph", "one-peer", "own radius")
    cases = quadratics.simulated_cases(size) | quadratics.plain_cases(size)
    found = {}
    for name in some:
        rule, network = cases[name]
        for make in (lambda made: made(), as_on_a_gpu):
            halves, loss = quadratics.model(rank, size)
            quadratics.train(make(partial(Decentralized, halves, rule, network, timeout=30)), loss, 6)
            found.setdefault(name, []).append(quadratics.joined(halves))
            torch.distributed.barrier()  # nobody leaves before the last message, which overlaps a gradient, is there
    found["in spans"] = [in_spans(rank, make) for make in (lambda made: made(), as_on_a_gpu)]
    return found


def in_spans(rank, make):
    """Messages of four spans."""
    x = torch.nn.Parameter(torch.zeros(4000, dtype=torch.float64))
    with mock.patch.object(flat, "SPAN", 500):
        optimizer = make(partial(Decentralized, [x], DMT, "ring", overlap=False, timeout=20))
    for _ in range(3):
        optimizer.zero_grad()
        (x - rank * torch.linspace(0, 1, 4000)).square().sum().backward()
        optimizer.step()
    assert optimizer.counters.messages >= 2 * 4 * 2  # the first step is the start; to each of two neighbours
    torch.distributed.barrier()
    return x.detach()[::40].numpy()


def test_messages_that_meet_in_order_have_the_same_bits_as_those_with_tags():
    for found in forked.run(grouped, 4):
        for name, (tagged, in_order) in found.items():
            assert np.array_equal(tagged, in_order), name
            assert np.abs(tagged).max() > 0


def test_on_a_gpu_nothing_is_given_a_time_to_wait_for():
    """With one, a work of NCCL stops the host until it is done."""
    waited = []
    work = SimpleNamespace(wait=lambda *timeout: waited.append(timeout))
    for kind in ("cuda:0", "cpu"):
        ProcessWorld.wait(SimpleNamespace(device=torch.device(kind), timeout=7), work)  # pyright: ignore
    assert waited == [(), (7,)]


def test_parameters_are_compared_always_on_a_cpu_and_now_and_then_on_a_gpu():
    assert all(looks(step, torch.device("cpu")) for step in range(1, 300))
    assert [step for step in range(1, 300) if looks(step, CUDA)] == [1, 2, 3, 100, 200]


def test_another_gpu_than_the_current_one_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    check_device(CUDA)
    check_device(torch.device("cpu"))
    with pytest.raises(
        gs.InputError, match=r"are on cuda:1, but the current GPU .* is cuda:0, .* torch.cuda.set_device"
    ):
        check_device(torch.device("cuda:1"))


def test_make_gpu_rehearses_on_cpus():
    """All that it checks there holds, on two processes."""
    for found in forked.run(torch_gpu.check_all, 2, "cpu"):
        assert len(found) == 2 * len(torch_gpu.contestants())
        assert [check for check in found if not check.passed] == []


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there are GPUs")
def test_make_gpu_refuses_where_there_are_none():
    done = subprocess.run([sys.executable, torch_gpu.__file__], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("make gpu needs two GPUs of NVIDIA on this machine, but PyTorch ")
