"""The study of who wins when: its exact moments, and two of its cells, against plain loops that draw everything."""

import importlib
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs

DOCS = Path(__file__).parents[1] / "docs"
FOUND = json.loads((DOCS / "assets" / "who-wins" / "found.json").read_text(encoding="utf-8"))
ERRORS = 4.0
"""Standard errors within which a mean of draws must be."""


def ring(n):
    return (np.eye(n) + np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0)) / 3


def models(method, A, W, eta, lam=1.0, warm=0, zeta=0.0, bias=0.0, noise=0.0, draws=600):
    """Yield the models of all agents, [agents, draws, d], round by round, by a method's own lines; A is [d, agents]."""
    rng, (d, n) = np.random.default_rng(0), A.shape
    a = A.T[:, None, :]
    x = np.broadcast_to(rng.standard_normal((draws, d)) / np.sqrt(d) / A.mean(1), (n, draws, d))
    h = np.sqrt(zeta / d * n / (n - 1)) * rng.standard_normal((n, draws, d))
    h = h - h.mean(0) + np.sqrt(bias / d) * rng.standard_normal((draws, d))

    def mix(z):
        return (W @ z.reshape(n, -1)).reshape(z.shape)

    def gradient(x):
        return a * x + h + np.sqrt(noise / d) * rng.standard_normal(x.shape)

    yield x
    if method == "D-PSGD":
        while True:
            x = mix(x) - eta * gradient(x)
            yield x
    if method == "GT-DSGD":
        g = gradient(x)
        y = mix(g)
        while True:
            x = mix(x - eta * y)
            new = gradient(x)
            y, g = mix(y + new - g), new
            yield x
    m = v = gradient(x)
    for _ in range(warm):
        v = mix(v)
    while True:
        x, v = mix(x) - eta * v, mix(v)
        new = (1 - lam) * m + lam * gradient(x)
        v, m = v + new - m, new
        yield x


def sampled(first, last, method, A, W, **setting):
    """Return the mean of ‖∇F(x̄)‖² over these rounds and over draws, and the standard error of it."""
    rounds = itertools.islice(models(method, A, W, **setting), first, last + 1)
    values = np.mean([((A.mean(1) * x.mean(0)) ** 2).sum(-1) for x in rounds], axis=0)
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("who_wins")


@pytest.mark.parametrize(
    ("method", "rule", "setting"),
    [
        ("D-PSGD", gs.DPSGD(eta=0.3), {"eta": 0.3}),
        ("GT-DSGD", gs.GTDSGD(eta=0.3), {"eta": 0.3}),
        ("Biased-DMT", gs.BiasedDMT(eta=0.4, lam=0.3), {"eta": 0.4, "lam": 0.3}),
        ("Biased-DMT", gs.BiasedDMT(eta=0.4, lam=0.3, warm=2), {"eta": 0.4, "lam": 0.3, "warm": 2}),
    ],
)
def test_exact_moments_are_the_mean_over_draws(study, method, rule, setting):
    """Every term alone, at three rounds: the heterogeneity, the bias and the noise each on top of the start."""
    A = np.array([[0.2, 0.9, 0.4, 0.5, 1.0], [0.7, 1.4, 0.9, 1.1, 0.4]])
    terms = study.terms([rule], ring(5), A, 12)[0]
    for weights in ({"zeta": 2.0}, {"bias": 0.5}, {"noise": 3.0}):
        exact = terms @ [1, *(weights.get(name, 0.0) for name in ("zeta", "bias", "noise"))]
        for rounds in (0, 3, 12):
            mean, error = sampled(rounds, rounds, method, A, ring(5), **setting, **weights, draws=40_000)
            assert abs(mean - exact[rounds]) < ERRORS * error


CELLS = [
    ({"graph": "ring", "zeta": 100.0, "bias": 0.0, "noise": 1.0}, "rounds", {"D-PSGD": 1000, "Biased-DMT": 1000}),
    ({"graph": "ring", "zeta": 0.0, "bias": 0.0, "noise": 10.0}, "bytes", {"D-PSGD": 2000, "Biased-DMT": 1000}),
]


@pytest.mark.parametrize(("cell", "unit", "rounds"), CELLS, ids=["heterogeneous, rounds", "alike, bytes"])
def test_stored_winner_wins_in_a_plain_loop(cell, unit, rounds):
    """Biased-DMT where the agents differ and rounds count; D-PSGD where they are alike and bytes count."""
    stored = next(one for one in FOUND["cells"] if all(one[key] == value for key, value in cell.items()))[unit]
    A, W = np.array(FOUND["problem"]["curvatures"]), ring(FOUND["problem"]["agents"])
    levels = {key: cell[key] for key in ("zeta", "bias", "noise")}
    rounds = rounds | {"GT-DSGD": 999}
    found = {}
    for name, steps in rounds.items():
        value, *exponents = stored[name]
        eta, lam = (FOUND["problem"]["step"] ** power for power in exponents)
        mean, error = found[name] = sampled(math.ceil(0.9 * steps), steps, name, A, W, eta=eta, lam=lam, **levels)
        assert abs(mean - value) < ERRORS * error, name
    best = min(stored[name][0] for name in rounds)
    (winner,) = (name for name in rounds if stored[name][0] == best)
    for name in rounds.keys() - {winner}:
        (mean, error), (other, wide) = found[winner], found[name]
        assert other - mean > ERRORS * np.hypot(error, wide), name


def test_page_is_what_was_found(study):
    """No number on the page is typed: written anew from the stored findings, it is the same."""
    assert study.page(FOUND) == (DOCS / "who-wins.md").read_text(encoding="utf-8")
