"""What goes wrong silently elsewhere is refused or warned of."""

import threading

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.torch import Decentralized, mean_model, resume, save
from tests.torch_engine import forked, traps
from tests.torch_engine.small import problem, same, steps, weight


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("traps")


@pytest.fixture(scope="module")
def ranks(folder):
    return forked.run(traps.all_of_them, 2, str(folder))


def test_the_state_of_another_rank_is_refused_by_all(ranks):
    (zero, zero_same), (one, one_same) = (of_rank["wrong rank"] for of_rank in ranks)
    assert "this state was saved by rank 0, but this is rank 1 of 2: every rank must load its own" in one
    assert zero == f"rank 1 (of 1 ranks) refuses: {one}"
    assert zero_same  # nothing was changed
    assert one_same


def test_a_folder_that_one_rank_refuses_is_refused_by_all(ranks):
    zero, one = (of_rank["unfit"] for of_rank in ranks)
    assert "of-0 holds checkpoints of 3 ranks, but there are 2" in zero
    assert one == f"rank 0 (of 1 ranks) refuses: {zero}"


def test_gradients_that_were_averaged_before_are_warned_of_once(ranks):
    assert [len(of_rank["warned"]) for of_rank in ranks] == [1, 0]
    assert "Do not wrap the model in DistributedDataParallel" in ranks[0]["warned"][0]
    assert all(of_rank["not warned"] == [] for of_rank in ranks)


def test_buffers_of_the_module_begin_as_those_of_rank_0(ranks):
    assert [of_rank["buffers"][0] for of_rank in ranks] == [([0.0, 0.0], 7), ([1.0, 1.0], 6)]
    assert [of_rank["buffers"][1] for of_rank in ranks] == [([0.0, 0.0], 7), ([0.0, 0.0], 7)]


def test_halves_have_a_state_in_single_precision(ranks):
    """v̄ = m̄ holds to the rounding of float32 after 300 steps."""
    for of_rank in ranks:
        types, shown, v, m = of_rank["halves"]
        assert types == {"torch.float32", "torch.bfloat16"}
        assert shown
        np.testing.assert_allclose(v, m, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("ranks")
def test_another_number_of_ranks_begins_from_the_mean_model(folder):
    """D-PSGD from 1 with gradients 1 and 2: the mean is 1 − 1.5."""
    model = torch.nn.BatchNorm1d(2, dtype=torch.float64)
    optimizer = Decentralized(model.parameters(), gs.DPSGD(eta=1.0))
    with pytest.raises(gs.InputError, match=r"holds checkpoints of 2 ranks, but there are 1: .* begin from their mean"):
        resume(folder / "checkpoints", model, optimizer)
    model.load_state_dict(mean_model(folder / "checkpoints"))
    assert model.weight.tolist() == [-0.5, -0.5]
    assert model.running_mean is not None
    assert model.running_mean.tolist() == [0.5, 0.5]
    assert model.weight.dtype == torch.float64


def test_a_folder_without_a_whole_step_has_no_mean_model(tmp_path):
    with pytest.raises(gs.InputError, match="holds no step of which there is a whole checkpoint"):
        mean_model(tmp_path)


def test_a_damaged_file_has_no_mean(tmp_path):
    model = torch.nn.ParameterList([weight()])
    path = save(tmp_path, 0, model, Decentralized(model.parameters(), gs.DPSGD(eta=0.1)))
    file = path / "__0_0.distcp"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(gs.InputError, match=r"is damaged .* Restore it, or remove the folder of this step"):
        mean_model(tmp_path)


def test_nothing_steps_or_saves_at_the_mean(tmp_path):
    params, loss = problem()
    model = torch.nn.ParameterList(params)
    optimizer = Decentralized(params, gs.DPSGD(eta=0.1))
    for use in (
        optimizer.step,
        optimizer.consensus_error,
        lambda: save(tmp_path, 0, model, optimizer),
        lambda: optimizer.load_state_dict(optimizer.state_dict()),
    ):
        loss().backward()
        with optimizer.average_model(), pytest.raises(gs.InputError, match="inside of average_model the parameters"):
            use()


class Counted(torch.overrides.TorchFunctionMode):
    """Counts products of whole vectors."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += func in (torch.Tensor.mul, torch.Tensor.__rmul__, torch.mul) and args[0].ndim == 1
        return func(*args, **(kwargs or {}))


def test_local_steps_cost_as_many_products_as_there_are_and_hold_one_gradient():
    """A round of K steps is left K times: were it run again from its start, products would grow as K²."""
    per_step = []
    for local in (10, 40):
        params, loss = problem()
        optimizer = Decentralized(params, gs.LocalBiasedDMT(eta=0.1, lam=0.5, inner=0.01, local=local))
        steps(optimizer, loss, count=1)
        with Counted() as products:
            for _ in range(local):
                loss().backward()
                optimizer.step()
                assert len(optimizer._rounds.answers) <= 2
        per_step.append(products.count / local)
    assert per_step[1] <= per_step[0] < 12


def test_a_run_goes_on_from_within_its_local_steps():
    """K = 4 steps a round: saved at every place of two rounds, the rest has the same bits."""
    rule = gs.KGT(eta=0.1, inner=0.02, local=4)
    straight, loss = problem()
    steps(Decentralized(straight, rule), loss, count=9)
    for stop in range(1, 9):
        params, loss = problem()
        optimizer = Decentralized(params, rule)
        steps(optimizer, loss, count=stop)
        saved = optimizer.state_dict()
        params, loss = problem()
        optimizer = Decentralized(params, rule)
        optimizer.load_state_dict(saved)
        steps(optimizer, loss, count=9 - stop, first=stop)
        assert all(torch.equal(a, b) for a, b in zip(straight, params, strict=True))


def test_any_thread_may_step():
    (mine, f), (theirs, g) = problem(), problem()
    optimizer = Decentralized(mine, gs.BiasedDMT(eta=0.1, lam=0.3))
    for k in range(3):
        thread = threading.Thread(target=steps, args=(optimizer, f), kwargs={"count": 1, "first": k})
        thread.start()
        thread.join()
    steps(Decentralized(theirs, gs.BiasedDMT(eta=0.1, lam=0.3)), g, count=3)
    same(mine, theirs)


def test_an_optimizer_that_was_interrupted_within_a_round_says_so():
    """Ctrl-C leaves a round half done; what comes after must not pretend otherwise."""
    params, loss = problem()
    optimizer = Decentralized(params, gs.DPSGD(eta=0.1))
    steps(optimizer, loss, count=1)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    optimizer.exchange.post = interrupted
    loss().backward()
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    with pytest.raises(RuntimeError, match="has stopped at an error before and cannot go on"):
        optimizer.step()
