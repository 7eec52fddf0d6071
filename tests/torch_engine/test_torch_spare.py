"""Memory that is kept for the next vectors: never while anybody holds it, and no more than a few."""

import gc
import os
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gossamer as gs
from gossamer.torch import Decentralized, fused, spare
from tests.torch_engine.small import problem, same, steps

SIZE = 3001


@pytest.fixture
def kept():
    return spare.spares(SIZE, torch.float64)


def test_memory_comes_back_when_the_last_view_of_it_is_gone(kept):
    a = kept.take()
    at, view = a.data_ptr(), a[7:9]
    del a
    assert kept.take().data_ptr() != at
    view.fill_(1.0)
    del view
    assert at in {one.data_ptr() for one in (kept.take(), kept.take())}


@given(moves=st.lists(st.integers(-6, 6), max_size=40))
def test_what_somebody_holds_never_changes(moves):
    """Vectors are taken, filled with a number of their own, and let go in any order."""
    kept, held = spare.spares(SIZE, torch.float32), {}
    for number, move in enumerate(moves):
        if move >= 0:
            held[number] = kept.take().fill_(number)
        elif held:
            del held[sorted(held)[move % len(held)]]
        assert all((a == of).all() for of, a in held.items())
    assert len({a.data_ptr() for a in held.values()}) == len(held)


def test_only_a_few_are_kept_and_none_after_their_owner(kept):
    many = [kept.take() for _ in range(spare.MOST + 5)]
    del many
    assert len(kept._free) == spare.MOST
    assert spare.empty(SIZE, torch.float64, torch.device("cpu")).shape == (SIZE,)
    assert spare.spares(SIZE, torch.float64) is kept
    assert (SIZE, torch.float64) in spare._ALL
    assert (SIZE + 1, torch.float64) not in spare._ALL
    key = SIZE + 2, torch.float64
    last = spare.spares(*key).take()  # nobody else holds those
    gc.collect()
    last.fill_(2.0)
    assert key in spare._ALL  # until the vector is back
    del last
    assert key not in spare._ALL


@pytest.mark.parametrize("size", [1, spare.HUGE // 8 - 1, spare.HUGE // 8, 3 * spare.HUGE // 8 + 5])
def test_a_vector_has_its_length_and_begins_at_a_huge_page(size):
    a = spare.spares(size, torch.float64).take()
    assert (a.shape, a.dtype, a.data_ptr() % spare.HUGE) == ((size,), torch.float64, 0)
    a.fill_(3.0)
    assert a.sum() == 3.0 * size
    assert torch.equal(spare.copied(a), a)
    assert spare.copied(a).data_ptr() != a.data_ptr()


def test_a_fork_has_memory_of_its_own(kept):
    a = kept.take().fill_(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the child does nothing that other threads could disturb
        child = os.fork()
    if not child:
        a.fill_(2.0)
        os._exit(0)
    os.waitpid(child, 0)
    assert (a == 1.0).all()


def test_an_optimizer_trains_the_same_in_spare_memory_and_what_a_script_holds_stays(monkeypatch):
    monkeypatch.setattr(fused, "SHORTEST", 1)
    (mine, f), (theirs, g) = problem(), problem()
    kept = fused.spared(12, torch.float64)
    optimizer = Decentralized(mine, gs.BiasedDMT(eta=0.1, lam=0.3))
    steps(optimizer, f, count=3)
    before = [optimizer.memory.state[name] for name in ("m", "v")]
    copies = [a.clone() for a in before]
    steps(optimizer, f, count=5, first=3)
    assert all(map(torch.equal, before, copies))
    assert len(kept[0]._free) == spare.MOST
    steps(torch.optim.SGD(theirs, 0.1, 0.7, 0.7), g)
    same(mine, theirs)
