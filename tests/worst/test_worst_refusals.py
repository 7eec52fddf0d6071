"""Worst cases that cannot be had: each is refused with the way out."""

import sys

import pytest

import gossamer as gs
from gossamer.core import InputError, MissingPackage
from gossamer.worst import NotLinear, worst_case
from tests.commands import gossamer
from tests.table import table

RING, RULE = gs.networks.ring(4), gs.BiasedDMT(eta=0.1, lam=0.5)


@table(
    ("change", "words"),
    [
        ({"rule": gs.DPSGD}, ["the class", "give it numbers"]),
        ({"network": None}, ["one of a network", "spectrum = (low, high)"]),
        ({"spectrum": (-0.5, 0.5)}, ["one of a network"]),
        ({"network": None, "spectrum": (0.5, -0.5)}, ["low ≤ high", "swap them"]),
        ({"network": None, "spectrum": (-1.5, 0.5)}, ["-1.5", "lie there"]),
        ({"network": None, "spectrum": 0.5}, ["(low, high)"]),
        ({"network": "ring"}, ["gossamer.networks", "networks.ring(5)"]),
        ({"steps": 0}, ["steps"]),
        ({"steps": 501}, ["steps", "500"]),
        ({"functions": 1.0}, ["gossamer.smooth"]),
        ({"bias": 0.1}, ["pair (M_f, σ_f²)"]),
        ({"bias": (1.0, 0.0)}, ["M_f", "no method moves"]),
        ({"bias": (0.0, -1.0)}, ["σ_f²"]),
        ({"metric": "loss"}, ["mean_gradient", "gap"]),
        ({"metric": "gap"}, ["a minimum", "gossamer.convex"]),
        ({"distance": 1.0}, ["a minimum", "gossamer.convex"]),
        ({"excess": -1.0}, ["excess"]),
        ({"functions": gs.convex(), "excess": 1.0}, ["infinitely far", "distance="]),
        ({"noise": 1.0}, ["without noise", "gossamer.certificate"]),
        ({"steps": 40, "seconds": 5.0}, ["beyond the budget of 5 s", "rounds", "gossamer.certificate"]),
        ({"network": gs.networks.path(9), "steps": 8, "seconds": 5.0}, ["agents are all alike, such as a ring"]),
        ({"network": gs.networks.directed_ring(4)}, ["doubly stochastic", "push-pull", "undirected"]),
        ({"network": gs.networks.exponential(4), "rule": gs.EXTRA(eta=0.1)}, ["symmetric", "undirected"]),
        ({"rule": gs.ExactDiffusion(eta=0.1), "network": gs.networks.one_peer_exponential(4)}, ["changes", "tracks"]),
        ({"rule": gs.RelaySGD(eta=0.1)}, ["tree", "spanning_tree"]),
        ({"rule": gs.DAdamW(eta=0.1)}, ["linear in its arrays", "simulator"]),
        ({"rule": gs.GTNSGDm(eta=0.1, lam=0.5)}, ["linear in its arrays"]),
        (
            {"rule": gs.ChocoSGD(eta=0.1, gamma=0.4, compressor=gs.compressors.qsgd(levels=1))},
            ["bounds no error below", "top_k"],
        ),
    ],
)
def test_what_cannot_be_had_says_the_way_out(change, words):
    given = {"rule": RULE, "network": RING, "steps": 2} | change
    with pytest.raises(InputError) as caught:
        worst_case(given.pop("rule"), given.pop("network"), **given)
    for word in words:
        assert word in str(caught.value)


@table("make", [gs.smooth, gs.convex, gs.lipschitz])
def test_a_constant_must_be_positive(make):
    for wrong in (0.0, -1.0, float("nan"), float("inf"), "1"):
        with pytest.raises(InputError):
            make(wrong)


def test_curvature_lies_below_smoothness():
    for wrong in (-0.1, 1.0, 2.0):
        with pytest.raises(InputError, match="smooth"):
            gs.convex(1.0, mu=wrong)


def test_nonlinear_rules_are_refused_as_such():
    with pytest.raises(NotLinear):
        worst_case(gs.DAdamW(eta=0.1), RING, steps=2)


def test_without_the_solver_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(MissingPackage, match=r"clarabel.*\.\[proofs\]"):
        worst_case(RULE, RING, steps=2)


SPEC = """
[problem]
name = "quadratic"
A = [[2.0, 0.5], [0.5, 1.0]]
b = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [0.5, -1.0]]

[network]
name = "ring"

[run]
steps = 20

[[algorithm]]
name = "biased-dmt"
eta = 0.1
lam = 0.5

[[algorithm]]
name = "d-adamw"
eta = 0.1
"""


@pytest.fixture
def spec(tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text(SPEC)
    return file


def test_the_command_prints_a_row_a_method(spec):
    ended = gossamer("worst-case", spec, "--steps", 4, "--no-replay")
    assert ended.returncode == 0
    assert "biased-dmt (eta=0.1, lam=0.5)" in ended.stdout
    assert "Δ + " in ended.stdout
    assert "- d-adamw: a worst case needs a rule that is linear" in ended.stdout
    assert "multipliers: about" in ended.stderr  # time and memory, before it is solved


def test_the_command_agrees_with_the_function(spec):
    import json

    flags = ["--smoothness", 1, "--excess", 1, "--start", 1, "--relative", 0.1, "--absolute", 0.1]
    ended = gossamer("worst-case", spec, "--steps", 2, "--spectrum", -0.4, 0.4, *flags, "--no-replay", "--json")
    found = json.loads(ended.stdout)["methods"][0]
    own = worst_case(RULE, steps=2, spectrum=(-0.4, 0.4), bias=(0.1, 0.1))
    assert found["upper"] == pytest.approx(own.upper, abs=1e-9)


def test_the_command_says_that_noise_is_left_out(spec):
    quiet = gossamer("worst-case", spec, "--steps", 2, "--no-replay").stdout
    noise = '[oracle]\nstages = [{ kind = "additive-bias", mean = 0.05, std = 0.2, redraw = true }]\n'
    spec.write_text(spec.read_text() + noise)
    loud = gossamer("worst-case", spec, "--steps", 2, "--no-replay").stdout
    assert "without noise, of which the oracle has σ² = 0.08" in loud
    assert "noise" not in quiet


@pytest.mark.parametrize("command", ["worst-case", "prove"])
def test_commands_that_bound_no_method_end_with_a_code_of_their_own(spec, command):
    head, _, second = spec.read_text().split("[[algorithm]]")
    spec.write_text(head + "[[algorithm]]" + second)
    ended = gossamer(command, spec, "--steps", 2)
    assert ended.returncode == 7
    assert "- d-adamw: " in ended.stdout


@pytest.mark.parametrize("command", ["worst-case", "prove"])
def test_no_command_proves_what_starts_apart(spec, command):
    spec.write_text(spec.read_text().replace("[run]", "[run]\napart = [-1.0, 1.0]"))
    ended = gossamer(command, spec)
    assert ended.returncode == 2
    assert "one point" in ended.stderr


@pytest.mark.parametrize(
    "bad", [("worst-case", "--seconds"), ("prove", "--seconds"), ("plan", "--proof")], ids=lambda bad: bad[0]
)
def test_a_budget_must_be_a_number_of_seconds(spec, bad):
    for value in ("nan", "-1"):
        ended = gossamer(bad[0], spec, bad[1], value)
        assert ended.returncode == 2
        assert "Traceback" not in ended.stderr


def test_the_command_refuses_bad_numbers(spec):
    assert gossamer("worst-case", spec, "--relative", 1.5).returncode == 2
    ended = gossamer("worst-case", spec, "--metric", "loss")
    assert ended.returncode == 2
    assert "mean_gradient" in ended.stderr
