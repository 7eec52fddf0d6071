"""Several ranks: they agree before they train, begin at one point, are averaged, counted, and may leave."""

import numpy as np
import pytest

from gossamer import networks
from tests.table import table
from tests.torch_engine import forked, worlds


@table(
    ("what", "message"),
    [
        (
            "shape",
            r"disagree on the shapes of the parameters: rank 0 has 3 numbers in \(3,\), but rank 2 has 4 numbers",
        ),
        ("dtype", r"disagree on the type of the parameters: rank 0 has torch.float32, but rank 2 has torch.float64"),
        ("rule", r"disagree on the rule: rank 0 has d-psgd with eta=0.1, but rank 2 has d-psgd with eta=0.2"),
        ("network", r"disagree on the network: rank 0 has ring.* of 4 agents.* but rank 2 has complete"),
        ("asynchronous", r"disagree on the choice of asynchronous: rank 0 has False, but rank 2 has True"),
        ("inner", r"disagree on the options of the inner optimizer: rank 0 has lr=0.01, .* but rank 2 has lr=0.02, "),
        ("later", r"disagree on the network: rank 0 has sequence.* but rank 2 has sequence"),
    ],
)
def test_ranks_that_disagree_are_told_before_training(what, message):
    with forked.Ranks(worlds.differing, 4, what) as ranks:
        found = ranks.results()
    for failed in found:
        assert failed.kind == "InputError"
        with pytest.raises(ValueError, match=message):
            raise ValueError(failed.message)


@pytest.fixture(scope="module")
def ranks():
    return forked.run(worlds.together, 4)


def test_the_start_is_that_of_rank_0(ranks):
    assert all(np.array_equal(of_rank["start"], np.zeros((2, 2))) for of_rank in ranks)


def test_the_mean_is_shown_inside_and_put_back_after(ranks):
    for rank, found in enumerate(ranks):
        np.testing.assert_allclose(found["own"], -rank)
        np.testing.assert_allclose(found["mean"], -1.5)
        np.testing.assert_allclose(found["buffer"], 1.5)
        np.testing.assert_array_equal(found["after"], found["own"])
        np.testing.assert_array_equal(found["buffer after"], float(rank))


def test_consensus_error_is_the_mean_square_distance(ranks):
    """Four numbers of each rank are −0, −1, −2, −3, and the others are equal: 4 · (2.25 + 0.25)/2."""
    assert [of_rank["consensus"] for of_rank in ranks] == [pytest.approx(5.0)] * 4


def test_bytes_and_messages_are_counted(ranks):
    """D-PSGD: 10 numbers of 8 bytes to two neighbours, in the round of the step and in the one begun after it."""
    for found in ranks:
        assert (found["counters"].bytes_sent, found["counters"].messages) == (2 * 2 * 80, 4)
        assert found["compressed"] == (3 * 2 * 3 * (4 + 4), 6)


def test_no_buffer_is_kept_that_no_message_uses(ranks):
    """Biased-DMT starts with a message of one vector, and its rounds send two: buffers of the start are let go."""
    assert [of_rank["idle"] for of_rank in ranks] == [0] * 4


def test_a_rank_that_overflows_keeps_no_one_waiting(ranks):
    assert [of_rank["overflow"] for of_rank in ranks] == [(0, True), (1, True), (0, True), (0, True)]


def test_a_slow_rank_may_end_after_its_neighbours_have_left():
    assert forked.run(worlds.leaving_early, 4, seconds=60) == [True] * 4


def test_optimizers_do_not_mix_up_their_messages():
    """Ten and twenty rounds of the same recursion in NumPy, from 0 and from 10."""
    found = forked.run(worlds.two_at_once, 4)
    np.testing.assert_allclose([third for third, _ in found], rounds(0.0, 10), rtol=1e-12)
    np.testing.assert_allclose([second for _, second in found], rounds(10.0, 20), rtol=1e-12)


def rounds(start, steps):
    W = networks.ring(4).mixing
    x = np.full((4, 3), start)
    m = v = 2 * (x - np.arange(4)[:, None])
    for _ in range(steps):
        x = W @ x - 0.1 * v
        new = 0.5 * m + 0.5 * 2 * (x - np.arange(4)[:, None])
        v, m = W @ v + new - m, new
    return x


def test_ranks_that_are_apart_are_told_and_layouts_do_not_matter():
    """A step at the mean would take its gradient there, and the point would then be put back to the one before."""
    found = forked.run(worlds.apart, 2)
    for of_rank in found:
        assert "the ranks disagree on the number of steps: rank 0 has 2, but rank 1 has 1" in of_rank["steps"]
        assert "disagree on the lr of each parameter group: rank 0 has 0.05, but rank 1 has 0.1" in of_rank["rates"]
        assert "inside of average_model the parameters are the mean of all ranks" in of_rank["at the mean"]
        np.testing.assert_array_equal(of_rank["frozen"], np.arange(24.0).reshape(1, 2, 3, 4))
