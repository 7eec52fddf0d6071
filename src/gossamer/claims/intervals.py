"""Student intervals over seeds, and what they say of a claim."""

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import stdtrit

from gossamer.claims.evidence import Readings, paired
from gossamer.claims.verdict import Finding, Insufficient, Word

ERROR = 0.05
"""How often a claim may be judged wrongly."""


def student(values: np.ndarray, level: float = 1 - ERROR) -> tuple[float, float]:
    """The interval of the mean of independent values, one a seed."""
    half = stdtrit(len(values) - 1, (1 + level) / 2) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def difference(a: Readings, b: Readings) -> np.ndarray:
    """a − b, seed by seed."""
    values = paired(a, b)
    return values[0] - values[1]


def log_ratio(a: Readings, b: Readings) -> np.ndarray:
    """log a/b, seed by seed."""
    values = _log(paired(a, b))
    return values[0] - values[1]


def log_slope(x: Mapping[str, float], y: Mapping[str, Readings]) -> np.ndarray:
    """The slope of log y against log x by least squares, seed by seed."""
    logs = np.log([x[name] for name in y])
    if np.ptp(logs) < 1e-9:
        raise Insufficient(f"a slope needs two different values, but there are {len(logs)}, all alike")
    centred = logs - logs.mean()
    return centred @ _log(paired(*y.values())) / (centred @ centred)


def _log(values: np.ndarray) -> np.ndarray:
    if not (values > 0).all():
        raise Insufficient(f"a reading is {values.min():.4g}, which has no logarithm")
    return np.log(values)


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def decide(
    quantity: str,
    parts: Mapping[str, np.ndarray],
    *,
    above: float = -math.inf,
    below: float = math.inf,
    ratio: bool = False,
    some: bool = False,
    note: str = "",
) -> Finding:
    """Whether the means of all parts lie between two numbers.

    Args:
        quantity: what the parts are, for the text.
        parts: by name, a value for each seed; each part takes an equal share of the error (Bonferroni).
        above: the region's lower end.
        below: its upper end.
        ratio: whether the values are logarithms of what the region is about.
        some: whether it is enough that one part lies inside; the claim then fails only if all lie outside.
        note: what else the text should say.
    """
    level, undo = 1 - ERROR / len(parts), _exp if ratio else float
    if ratio:
        above, below = (math.log(end) if 0 < end < math.inf else end for end in (above, below))
    found: list[tuple[int, float, tuple[float, float]]] = []
    texts = []
    for name, values in parts.items():
        low, high = student(values, level)
        inside = 1 if above < low and high < below else -1 if high < above or below < low else 0
        found.append((inside, min(low - above, below - high), (undo(low), undo(high))))
        texts.append(f"{name} {undo(float(values.mean())):.4g} [{undo(low):.4g}, {undo(high):.4g}]".strip())
    sides = [inside for inside, _, _ in found]
    word: Word = "undecided"
    if (any if some else all)(side == 1 for side in sides):
        word = "holds"
    elif (all if some else any)(side == -1 for side in sides):
        word = "does not hold"
    counts = [len(values) for values in parts.values()]
    seeds = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{min(counts)}"
    each = " each" if len(parts) > 1 else ""
    measured = f"{quantity}: {', '.join(texts)} ({100 * level:.4g} %{each}, {seeds} seeds)"
    return Finding(measured + (f"; {note}" if note else ""), (max if some else min)(found)[2], word)
