"""The ε of private runs: against a closed form and a composition of our own, and where it is shown."""

import json

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import gossamer as gs
from gossamer.basics.text import json_ready
from gossamer.oracles import local_training, private
from gossamer.results import privacy
from gossamer.results.privacy import MissingAccounting, epsilon
from gossamer.results.result import Result
from tests.oracles.sites import PROBLEM

NETWORK = gs.networks.complete(3)
RULES = [gs.BiasedDMT(eta=0.1, lam=0.5), gs.DPSGD(eta=0.1)]


def gaussian(noise, releases, delta):
    """ε of the Gaussian mechanism with noise σ/√T: δ(ε) = Φ(1/2s − εs) − e^ε Φ(−1/2s − εs), solved for ε."""
    s = noise / np.sqrt(releases)

    def excess(eps):
        return norm.cdf(1 / (2 * s) - eps * s) - np.exp(eps + norm.logcdf(-1 / (2 * s) - eps * s)) - delta

    return brentq(excess, 0, 700)


@pytest.mark.parametrize(
    ("noise", "releases", "delta"), [(1, 1, 1e-5), (5, 100, 1e-5), (20, 1001, 1e-6), (50, 10001, 1e-3)]
)
def test_without_sampling_it_is_that_of_so_many_gaussians(noise, releases, delta):
    assert epsilon(noise, 1.0, releases, delta) == pytest.approx(gaussian(noise, releases, delta), abs=1e-3)


def composed(noise, rate, releases, delta, step=2e-4):
    """ε by our own means: the distribution of the privacy loss on a grid, its powers by FFT, for a row that is added
    and for one that is removed.

    A loss between two places of the grid is shared between them so that E e^(−loss) stays: for P against Q that is the
    mass under Q, and one composition is exact but for the quadrature.
    """
    x = np.linspace(-12 * noise, 1 + 12 * noise, 400_001)
    without = norm.pdf(x, 0, noise)
    mixed = (1 - rate) * without + rate * norm.pdf(x, 1, noise)
    found = []
    for P, Q in ((mixed, without), (without, mixed)):
        mass, loss = P * (x[1] - x[0]), np.log(P / Q)
        low = np.floor(loss / step).astype(int)
        above = (1 - np.exp(low * step - loss)) / (1 - np.exp(-step))  # of what lies between low and low + 1
        first, size = low.min(), 1 << 20
        line = np.bincount(low - first, mass * (1 - above), size) + np.bincount(low - first + 1, mass * above, size)
        # many places around the mean of the sum: what lies beyond comes round again, so all must fit
        assert (low.max() + 1 - first) < size
        power = np.fft.irfft(np.fft.rfft(line) ** releases, size)
        mean = releases * (line @ np.arange(size))
        places = np.arange(size) + size * np.round((mean - np.arange(size)) / size)
        losses = (places + releases * first) * step

        def excess(eps, power=power, losses=losses):
            return (power * np.maximum(0, 1 - np.exp(np.minimum(0, eps - losses)))).sum() - delta

        found.append(brentq(excess, 0, 100))
    return max(found)


def test_with_sampling_it_is_that_of_an_independent_composition():
    """Two ways that share no code; a grid errs by less than 0.001 here, and ours is an upper bound."""
    for noise, rate, releases in ((1.0, 0.1, 101), (2.0, 0.3, 31)):
        told, ours = epsilon(noise, rate, releases), composed(noise, rate, releases, 1e-5)
        assert told == pytest.approx(ours, abs=1e-3)
        assert told < gaussian(noise, releases, 1e-5) / 2
    assert composed(3.0, 1.0, 7, 1e-5) == pytest.approx(gaussian(3.0, 7, 1e-5), abs=1e-3)  # it can be checked itself


def test_limits():
    assert epsilon(1.0, 0.1, 0) == 0
    assert epsilon(0.0, 0.1, 10) == np.inf
    assert epsilon(1.0, 1 - 1e-9, 101) == pytest.approx(epsilon(1.0, 1.0, 101), abs=1e-3)
    assert epsilon(1e-3, 0.5, 1001) == epsilon(1e-3, 1.0, 1001) > 1e8  # next to no noise: a bound, and no error
    with pytest.raises(gs.InputError, match=r"noise must be a number in \[0, ∞\), but is -1"):
        epsilon(-1, 0.1, 10)
    with pytest.raises(gs.InputError, match=r"delta must be a number in \(0, 1\), but is 1"):
        epsilon(1, 0.1, 10, 1)


@pytest.fixture(scope="module")
def result():
    return gs.simulate(RULES, PROBLEM, NETWORK, private(1.0, 2.0, 0.5, delta=1e-4), steps=6, every=3)


def test_every_query_counts_also_that_of_the_start(result):
    spent = result.privacy()
    assert spent["algorithm"].to_list() == ["biased-dmt", "d-psgd"]
    assert spent["releases"].to_list() == [7, 6]
    assert spent["epsilon"].to_list() == [epsilon(2.0, 0.5, count, 1e-4) for count in (7, 6)]
    assert result.privacy(delta=1e-6)["epsilon"][0] > spent["epsilon"][0]
    frame = result.frame()
    assert frame.filter(frame["round"] == 3)["releases"].to_list() == [4, 3]


@pytest.mark.slow
def test_local_steps_count_each_and_sleepers_as_if_awake():
    network = gs.networks.failing(gs.networks.complete(3), agents=0.5)
    stages = private(1.0, 2.0, 0.5) | local_training(4, 0.1)
    found = gs.simulate(RULES[0], PROBLEM, network, stages, steps=6)
    assert found.privacy()["releases"].to_list() == [4 * 7]
    assert found.table["queries"][-1] < 4 * 7


def test_summaries_show_it_and_files_keep_it(result, tmp_path):
    again = Result.load(result.save(tmp_path / "out"))
    for one in (result, again):
        table = one.summary().table
        assert table["epsilon"].to_list() == result.privacy()["epsilon"].to_list()
        assert table["delta"].to_list() == [1e-4, 1e-4]
        shown = str(one.summary()).splitlines()
        heads = [number for number, line in enumerate(shown) if line.endswith("ε")]
        assert [shown[number + 1].endswith(f"{table['epsilon'][0]:.4g}") for number in heads] == [True]
        assert shown[-1] == "ε at δ = 0.0001: what an agent spent, for adding or removing one of its rows."
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["privacy"] == {
        "clip": 1.0,
        "noise": 2.0,
        "rate": 0.5,
        "delta": 1e-4,
    }


def test_without_the_extra_runs_say_what_to_install(result, monkeypatch):
    monkeypatch.setattr(privacy, "find_spec", lambda name: None)
    assert str(result.summary()).endswith(
        "private, but to see ε: dp-accounting is not installed: `pip install -e '.[privacy]'` in the clone."
    )
    assert "epsilon" not in result.summary().table.columns
    with pytest.raises(MissingAccounting, match=r"dp-accounting is not installed: `pip install -e '\.\[privacy\]'`"):
        result.privacy()


def test_without_noise_it_is_infinite_and_null_in_json():
    found = gs.simulate(RULES[1], PROBLEM, NETWORK, private(1.0, 0.0, 0.5), steps=1).summary()
    assert found.table["epsilon"].to_list() == [np.inf]
    assert json_ready(found.table.to_dicts())[0]["epsilon"] is None


def test_a_result_that_is_not_private_says_so():
    found = gs.simulate(RULES[1], PROBLEM, NETWORK, steps=1)
    assert "releases" not in found.table.columns
    with pytest.raises(gs.InputError, match=r"protects nothing: begin it with oracles\.private"):
        found.privacy()
