"""Averaging: gossip alone, from starts apart."""

import numpy as np
import pytest

import gossamer as gs

RING = gs.networks.ring(8)
APART = {"apart": (0.0, 1.0), "dtype": "float64", "progress": False}
TOP_1 = gs.compressors.top_k(1)


def disagreement(rule, steps, every=None):
    return gs.simulate(rule, gs.problems.averaging(8, 20), RING, steps=steps, every=every, **APART).frame()["consensus"]


def test_exact_gossip_falls_by_the_eigenvalues_of_w():
    """Σ‖x_i − x̄‖² of Wᵗ X⁰ lies between what the extreme eigenvalues leave of it."""
    found = disagreement(gs.DPSGD(eta=3.0), 30, 30)
    sizes = np.sort(np.abs(np.linalg.eigvalsh(RING.mixing)))
    assert sizes[0] ** 60 <= found[-1] / found[0] <= sizes[-2] ** 60


def test_choco_gossip_goes_on_where_directly_compressed_gossip_stalls_and_both_keep_the_mean():
    choco = gs.ChocoSGD(eta=1.0, gamma=0.1, compressor=TOP_1)
    found = disagreement(choco, 1000, 250)
    assert found[-1] < 1e-9 * found[0]
    falls = np.diff(np.log(found.to_numpy()))
    assert falls.max() < 0.5 * falls.mean()  # at least half as fast in every quarter as on average: linearly
    stalled = disagreement(gs.DirectDSGD(eta=1.0, gamma=0.1, compressor=TOP_1), 1000, 250)
    assert stalled[-1] > 1e-2 * stalled[0]
    rules = [choco, gs.DirectDSGD(eta=1.0, gamma=0.1, compressor=TOP_1), gs.DPSGD(eta=1.0)]
    ends = gs.simulate(rules, gs.problems.averaging(8, 20), RING, steps=50, **APART).iterates
    for name in ("choco-sgd", "direct-dsgd"):
        np.testing.assert_allclose(ends[name][0].mean(0), ends["d-psgd"][0].mean(0), atol=1e-13)


def test_without_a_start_apart_there_is_nothing_to_do():
    run = gs.simulate(gs.DPSGD(eta=1.0), gs.problems.averaging(4), gs.networks.ring(4), steps=3, progress=False)
    assert run.frame()["consensus"].to_list() == [0.0] * 4
    assert run.frame()["loss"].to_list() == [0.0] * 4


@pytest.mark.parametrize(
    ("given", "said"), [((0, 5), "agents must be"), ((3, 0), "dim must be"), ((3, 1.5), "dim must")]
)
def test_sizes_that_cannot_be_are_refused(given, said):
    with pytest.raises(gs.InputError, match=said):
        gs.problems.averaging(*given)
