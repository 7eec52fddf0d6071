"""Modelled seconds."""

import pytest

import gossamer as gs
from gossamer.results.links import LINKS
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
