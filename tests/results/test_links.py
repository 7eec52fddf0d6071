"""Modelled seconds."""

import pytest

import gossamer as gs
from gossamer.experiments.running import run
from gossamer.results.links import LINKS
from gossamer.specs.spec import Spec
from tests import plain


@pytest.mark.parametrize("name", LINKS)
def test_seconds_are_latency_and_bytes_and_queries(name):
    problem, _ = plain.heterogeneous()
    rules = [gs.BiasedDMT(0.05, 0.3), gs.GTDSGD(0.05), gs.CentralizedSGD(0.05)]
    result = gs.simulate(rules, problem, plain.irregular(), steps=10, dtype="float64")
    link, vector = LINKS[name], 5 * 8
    expected = {
        "biased-dmt": 10 * link.latency + 10 * 2 * vector * 18 / 8 / link.bandwidth + 11 * link.query,
        "gt-dsgd": 21 * link.latency + 21 * vector * 18 / 8 / link.bandwidth + 11 * link.query,
        "centralized-sgd": 10 * 14 * link.latency + 10 * vector * 14 / 8 / link.bandwidth + 10 * link.query,
    }
    for label, seconds in expected.items():
        assert result.of(label)[f"seconds_{name}"][-1] == pytest.approx(seconds, rel=1e-12)


def test_a_thin_link_favours_the_rule_with_one_message():
    problem, _ = plain.heterogeneous()
    result = gs.simulate([gs.BiasedDMT(0.05, 0.3), gs.GTDSGD(0.05)], problem, plain.irregular(), steps=10)
    one, two = (result.of(label)["seconds_internet"][-1] for label in result.labels)
    assert two / one == pytest.approx(2, rel=0.1)


def small(**options):
    problem, _ = plain.heterogeneous()
    return gs.simulate(gs.DPSGD(0.05), problem, plain.irregular(), steps=4, every=2, progress=False, **options)


def test_a_link_of_one_s_own_is_a_column_and_an_axis_and_stays_with_the_result(tmp_path):
    result = small(links={"home": gs.Link(latency=2.0, bandwidth=100.0, query=0.5)})
    frame = result.frame()
    assert frame.columns[-4:] == [f"seconds_{name}" for name in (*LINKS, "home")]
    modelled = 2.0 * frame["messages"] + frame["bytes_sent"] / 100 + 0.5 * frame["queries"]
    assert frame["seconds_home"].to_list() == pytest.approx(modelled.to_list(), rel=1e-12)
    back = gs.Result.load(result.save(tmp_path / "run"))
    assert back.links == result.links
    assert back.frame().equals(frame)
    assert back.plot("loss", "home").axes[0].get_xlabel() == "modelled seconds, home"
    with pytest.raises(gs.InputError, match="no x-axis 'hom' in this result; did you mean 'home'"):
        back.plot("loss", "hom")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (
            (-1.0, 1e6, 0.0),
            r"Link\(latency=…\) must be a number in \[0, 1e\+09\], but is -1.0. It is a number of seconds",
        ),
        ((0.0, 0.0, 0.0), r"Link\(bandwidth=…\) must be a number in \[0.001, 1e\+18\], but is 0.0"),
        ((0.0, 1e6, float("nan")), r"Link\(query=…\) must be a number .* but is nan"),
        (("fast", 1e6, 0.0), r"Link\(latency=…\) must be a number .* but is 'fast'"),
        ((0.0, float("inf"), 0.0), r"Link\(bandwidth=…\) must be a number .* but is inf"),
    ],
)
def test_bad_numbers_of_a_link_are_refused(numbers, message):
    with pytest.raises(gs.InputError, match=message):
        gs.Link(*numbers)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({"campus": gs.Link(1, 1, 1)}, "'campus' is a preset link: choose another name"),
        ({"bytes": gs.Link(1, 1, 1)}, "'bytes' has another meaning in a result: choose another name for a link"),
        ({"../up": gs.Link(1, 1, 1)}, "the name of a link must be up to 40 letters"),
        ({"home": 3}, r"'home' must be a Link\(latency=…, bandwidth=…, query=…\), but is 3"),
        ([gs.Link(1, 1, 1)], "links must be given by name"),
    ],
)
def test_bad_links_are_refused(links, message):
    with pytest.raises(gs.InputError, match=message):
        small(links=links)


SPEC = {
    "problem": {"name": "quadratic", "A": [[1.0]], "b": [[1.0], [2.0]]},
    "network": {"name": "complete"},
    "run": {"steps": 2},
    "algorithm": [{"name": "d-psgd", "eta": 0.1}],
}


def test_a_spec_has_links_and_another_link_computes_nothing_anew(tmp_path):
    for latency in (1.0, 3.0):
        seen = []
        spec = Spec.of(SPEC | {"links": {"home": {"latency": latency, "bandwidth": 1e3, "query": 0.0}}})
        study = run(spec, tmp_path / "out", progress=lambda *told, seen=seen: seen.append(told))
        assert study.result.links["home"] == gs.Link(latency, 1e3, 0.0)
        assert gs.Result.load(tmp_path / "out").links == study.result.links
        assert bool(seen) == (latency == 1.0)
    assert "latency = 3.0" in (tmp_path / "out" / "spec.toml").read_text()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"latency": 1.0, "bandwidth": 0.0, "query": 0.0}, r"\[links\] Link\(bandwidth=…\) must be a number"),
        ({"latency": 1.0, "bandwidth": 1.0}, "key 'links.home.query' is missing"),
        ({"latency": "1 s", "bandwidth": 1.0, "query": 0.0}, "key 'links.home.latency' is '1 s'"),
    ],
)
def test_bad_links_of_a_spec_are_refused(table, message):
    with pytest.raises(gs.InputError, match=message):
        Spec.of(SPEC | {"links": {"home": table}}).parts()
