"""Two verdicts of the page of findings, measured again by loops in NumPy that import nothing of the package."""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "docs" / "assets" / "reproduction"
AGENTS, DIM, BATCH, ALPHA = 20, 123, 64, 0.01
RING = sum(np.roll(np.eye(AGENTS), k, 0) for k in (-1, 0, 1)) / 3


WIDTHS = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)
"""The columns of each attribute of a9a, which is stored as a code for each attribute (0 for none), the label last."""


def read_a9a():
    """Read the rows, sort them by label and deal them out in order, each times its label."""
    packed = lzma.decompress((ROOT / "src" / "gossamer" / "data" / "a9a.train.xz").read_bytes())
    *codes, positive = np.frombuffer(packed, np.uint8).reshape(len(WIDTHS) + 1, -1)
    blocks = [np.eye(width + 1)[code][:, 1:] for code, width in zip(codes, WIDTHS, strict=True)]
    rows, labels = np.concatenate(blocks, axis=1), np.where(positive, 1.0, -1.0)
    order = np.argsort(labels, kind="stable")
    return np.array_split(rows[order] * labels[order, None], AGENTS)


@pytest.fixture(scope="module")
def parts():
    return read_a9a()


def pull(x):
    """Return the gradient of the nonconvex regulariser."""
    return 2 * ALPHA * x / (1 + x**2) ** 2


def whole(parts, x):
    """Return F and ∇F, the means over agents."""
    margins = [part @ x for part in parts]
    loss = np.mean([np.logaddexp(0, -m).mean() for m in margins]) + ALPHA * (x**2 / (1 + x**2)).sum()
    slopes = [-(part * expit(-m)[:, None]).mean(0) for part, m in zip(parts, margins, strict=True)]
    return loss, np.mean(slopes, axis=0) + pull(x)


class Oracle:
    """Mini-batch gradients with a bias that each agent draws once."""

    def __init__(self, parts, seed):
        self.rng = np.random.default_rng(seed)
        self.parts = parts
        self.bias = self.rng.normal(0.002, 0.002, (AGENTS, DIM))

    def __call__(self, X):
        taken = np.stack([part[self.rng.integers(0, len(part), BATCH)] for part in self.parts])
        margins = np.einsum("abd,ad->ab", taken, X)
        return -np.einsum("abd,ab->ad", taken, expit(-margins)) / BATCH + pull(X) + self.bias


def arrival(rounds, losses, target):
    """Return the round from which on the losses stay at the target or below, by straight lines between marks."""
    k = np.flatnonzero(np.array(losses) > target)[-1] + 1
    share = (losses[k - 1] - target) / (losses[k - 1] - losses[k])
    return rounds[k - 1] + share * (rounds[k] - rounds[k - 1])


def stored(brief):
    """Return the parts of a claim's evidence by name."""
    rows = json.loads((FOUND / "verdicts.json").read_text(encoding="utf-8"))
    (row,) = (row for row in rows if row["short"] == brief)
    return row["verdict"], {part["name"]: part for part in row["evidence"]["parts"]}


def chosen(experiment, variant, algorithm):
    """Return the numbers that tuning chose most often."""
    settings = json.loads((FOUND / "chosen.json").read_text(encoding="utf-8"))[experiment][variant][algorithm]
    return max(settings, key=settings.count)


def agrees(logs, part):
    """Tell if a mean of logarithms lies in the stored interval, widened by three of its own standard errors."""
    error = 3 * stats.sem(logs)
    return np.log(part["low"]) - error <= np.mean(logs) <= np.log(part["high"]) + error


def test_biased_dmt_reaches_the_target_before_gt_dsgd_by_as_much_as_was_found(parts):
    _, evidence = stored("On the ring Biased-DMT descends fastest")
    dmt, gt = chosen("descent", "", "biased-dmt"), chosen("descent", "", "gt-dsgd")
    logs = []
    for seed in range(4):
        taken = []
        for name in ("dmt", "gt"):
            ask, X = Oracle(parts, seed), np.zeros((AGENTS, DIM))
            M = ask(X)
            V = M if name == "dmt" else RING @ M
            rounds, losses = [0], [whole(parts, X.mean(0))[0]]
            for t in range(1, 901):
                if name == "dmt":
                    X = RING @ X - dmt["eta"] * V
                    new = (1 - dmt["lam"]) * M + dmt["lam"] * ask(X)
                    V, M = RING @ V + new - M, new
                else:
                    X = RING @ (X - gt["eta"] * V)
                    new = ask(X)
                    V, M = RING @ (V + new - M), new
                if (t <= 200 and t % 4 == 0) or t % 100 == 0:
                    rounds.append(t)
                    losses.append(whole(parts, X.mean(0))[0])
            taken.append(arrival(rounds, losses, 0.42))
        logs.append(np.log(taken[0] / taken[1]))
    assert agrees(logs, evidence["gt-dsgd"])


@pytest.mark.slow
def test_biased_dsgd_tuned_at_its_horizon_is_as_near_to_the_floor_as_was_found(parts):
    verdict, evidence = stored("Biased-DSGD stalls above the floor of the bias")
    eta, horizon = chosen("horizon", "T = 32,000", "biased-dsgd")["eta"], 32_000
    logs = []
    for seed in range(3):
        ask, X, squares = Oracle(parts, 10 + seed), np.zeros((AGENTS, DIM)), []
        for t in range(1, horizon + 1):
            X = RING @ X - eta * ask(X)
            if t >= 0.9 * horizon and t % 400 == 0:
                squares.append((whole(parts, X.mean(0))[1] ** 2).sum())
        logs.append(np.log(np.mean(squares) / (ask.bias.mean(0) ** 2).sum()))
    assert agrees(logs, evidence[""])
    assert verdict == "does not hold"
    assert np.exp(np.mean(logs)) < 2
