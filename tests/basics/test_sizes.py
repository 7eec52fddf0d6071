"""What does not fit into memory is refused before it is made, with the number that is too large."""

import pytest

import gossamer as gs
from gossamer import networks
from gossamer.basics import sizes
from gossamer.core import InputError
from tests.table import table


def test_sizes_are_shown_as_a_reader_would_write_them():
    assert [sizes.format_bytes(n) for n in (12, 1500, 20.9e9, 4.9e14, 1.3e19)] == [
        "12 bytes",
        "1.5 kB",
        "20.9 GB",
        "490 TB",
        "13 EB",
    ]


def test_this_machine_has_memory():
    assert sizes.free_memory() > 1e7


def test_a_control_group_s_limit_counts(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 100000\n")
    monkeypatch.setattr(sizes, "_control_groups", lambda: [tmp_path])
    assert sizes.free_memory() == 400_000
    (tmp_path / "memory.max").write_text("max\n")
    assert sizes.free_memory() > 400_000


def test_what_fits_is_not_refused(monkeypatch):
    monkeypatch.setattr(sizes, "free_memory", lambda: 1e9)
    sizes.refuse_beyond_memory("a list", 1e9, "lower it")
    with pytest.raises(InputError, match=r"a list needs about 2 GB of memory, but this machine has 1 GB free: lower"):
        sizes.refuse_beyond_memory("a list", 2e9, "lower it")


TOO_LARGE = {
    "path": (lambda: networks.path(10**9), r"path\(1,000,000,000\) needs about 650 GB"),
    "star": (lambda: networks.star(10**9), r"star\(1,000,000,000\) needs about 650 GB"),
    "erdos": (lambda: networks.erdos_renyi(10**9, 0.1), r"erdos_renyi\(1,000,000,000, 0.1\) needs about 13 EB"),
    "regular": (lambda: networks.random_regular(10**9, 4), r"random_regular\(1,000,000,000, 4\) needs about 900 GB"),
    "directed": (lambda: networks.directed_erdos_renyi(10**7, 0.5), r"needs about 12.5 PB"),
    "matrix": (lambda: networks.ring(10**9).sparse, r"the matrix of 1,000,000,000 agents needs about 180 GB"),
    "delay": (lambda: gs.oracles.delay(10**10), r"delay\(rounds=…\) must be a whole number of at most 2,147,483,647"),
    "neural": (lambda: gs.problems.neural("digits", 5, hidden=[10**6, 10**6]), r"hidden = \[1000000, 1000000\], which"),
}


@table("case", TOO_LARGE)
def test_makers_refuse_what_no_machine_can_hold(case):
    make, message = TOO_LARGE[case]
    with pytest.raises(InputError, match=message):
        make()


RING, STAR = networks.ring(8), networks.star(8)


@pytest.mark.parametrize(
    "network",
    [
        networks.every(networks.sequence([RING, STAR, networks.complete(8)]), 3),
        networks.sequence([networks.every(RING, 2), STAR]),
        networks.every(networks.failing(networks.sequence([RING, STAR]), 0.25, 0.1), 2),
        networks.every(networks.every(STAR, 2), 3),
        networks.one_peer_exponential(8),
        networks.every(networks.random_matching(9), 4),
    ],
    ids=lambda network: network.name,
)
def test_traffic_and_pace_are_the_means_over_one_period(network):
    sends = [network.mixer.sends(t) for t in range(network.mixer.period)]
    assert network.traffic == pytest.approx(sum(sends) / len(sends), rel=1e-14)
    assert network.pace == pytest.approx(sum(sent > 0 for sent in sends) / len(sends), rel=1e-14)


def test_a_network_may_gossip_once_in_a_billion_rounds():
    rare, both = networks.every(RING, 10**9), networks.sequence([RING, STAR])
    assert rare.traffic == pytest.approx(2e-9)
    assert rare.gap == pytest.approx(1 - (1 - RING.gap) ** 1e-9, rel=1e-6)
    assert networks.every(both, 10**9).gap == pytest.approx(1 - (1 - both.gap) ** 1e-9, rel=1e-6)
    problem = gs.problems.quadratic([[2.0]], [[float(k)] for k in range(8)])
    result = gs.simulate(gs.DPSGD(eta=0.1), problem, rare, steps=5, dtype="float64", progress=False)
    assert result.frame()["bytes_sent"].to_list()[-1] == pytest.approx(5 * 8 * 2e-9)


def test_rounds_that_repeat_too_late_are_refused():
    with pytest.raises(InputError, match=r"sequence\(rounds\) repeats only after 2,000,000,000 rounds; 100,000 can be"):
        networks.sequence([networks.every(RING, 10**9), STAR])
    with pytest.raises(InputError, match=r"every\(rounds\) must be a whole number of at most 2,147,483,647"):
        networks.every(RING, 10**10)
