"""Figure 1: Biased-DMT against other methods under a biased oracle and data sorted by label.

Claims about the loss are judged on runs that were tuned by the loss, claims about floors of ‖∇F‖² on runs that were
tuned by it and went on until they had settled.
"""

from contextlib import suppress
from functools import partial

from gossamer.paper.claims.evidence import (
    DMT,
    FACTOR,
    SHARE,
    Runs,
    average,
    bias_sq,
    difference,
    grid_step,
    log_ratio,
    target,
    way,
)
from gossamer.paper.verdicts import Claim, Insufficient, Question, Unanswered, Word
from gossamer.results.study import Study

LOSS, GRADIENT = "by loss", "by gradient"
"""The variants, named after what their tuning judged by."""

RIVALS = ("biased-dsgd", "dsgdm", "gt-dsgd")
"""The methods that the paper compares with."""

CONTROLS = ("gnsd", "momentum-tracking", "centralized-sgd")
"""The methods that we add."""


def stalls(algorithm: str, study: Study) -> Question:
    floor = Runs.of(study, algorithm, GRADIENT).floor()
    reference = Runs.of(study, "centralized-sgd", GRADIENT).floor()
    note = f"floors {average(floor):.4g} and {average(reference):.4g}"
    return Question("ratio of floors of ‖∇F‖²", {"": log_ratio(floor, reference)}, above=2, ratio=True, note=note)


def bias_floor(study: Study) -> Question:
    runs = Runs.of(study, variant=GRADIENT)
    floor, bias = runs.floor(), bias_sq(study, GRADIENT)
    note = f"floor {average(floor):.4g}, ‖ē‖² {average(bias):.4g}"
    with suppress(Insufficient):  # it is only told beside the rest
        note += f", floor of ‖∇F+ē‖² {average(runs.floor('stationarity')):.4g}"
    parts = {"": log_ratio(floor, bias)}
    return Question("floor of ‖∇F‖² over ‖ē‖²", parts, above=0.8, below=1.2, ratio=True, note=note)


def lowest_loss(others: tuple[str, ...], study: Study) -> Question:
    dmt = Runs.of(study, variant=LOSS)
    theirs = {name: Runs.of(study, name, LOSS) for name in others}
    start, end = way([dmt, *theirs.values(), *_finished(study)])
    least = SHARE * (start - end)
    note = f"end of {DMT} {average(dmt.end()):.5g}, smallest difference that matters {least:.2g}"
    parts = {name: difference(dmt.end(), runs.end()) for name, runs in theirs.items()}
    return Question("loss at the end minus that of the other", parts, below=-least, tie=(-least, least), note=note)


def lower_floor(study: Study) -> Question:
    dmt, other = Runs.of(study, variant=GRADIENT).floor(), Runs.of(study, "gt-dsgd", GRADIENT).floor()
    note = f"floors {average(dmt):.4g} and {average(other):.4g}"
    return _smaller("ratio of floors of ‖∇F‖²", {"": log_ratio(dmt, other)}, FACTOR, note)


def fewest_rounds(study: Study) -> Question:
    dmt = Runs.of(study, variant=LOSS)
    rivals = {name: Runs.of(study, name, LOSS) for name in RIVALS}
    goal = target([dmt, *rivals.values(), *_finished(study)])
    rounds = dmt.arrivals(goal)
    theirs = {name: runs.arrivals(goal) for name, runs in rivals.items()}
    shown = ", ".join(f"{name} {average(each):.4g}" for name, each in {DMT: rounds, **theirs}.items())
    steps = [grid_step(study, name, LOSS) for name in (DMT, *RIVALS)]
    note = f"mean rounds to a loss of {goal:.5g}: {shown}; step of the coarsest grid {max(steps):.3g}"
    parts = {name: log_ratio(rounds, each) for name, each in theirs.items()}
    late: tuple[Word, ...] = ("holds", "tie") if max(rounds.values()) > dmt.last else ()
    never = {name for name, each in theirs.items() if max(each.values()) > rivals[name].last}
    doubted = {name: (*late, "tie", "does not hold") if name in never else late for name in theirs}
    if late or never:
        note += "; a run that never arrived counts as its rounds + 1"
    return _smaller("ratio of rounds to the other's", parts, max(FACTOR, *steps), note)._replace(doubted=doubted)


def _smaller(quantity: str, parts: dict, factor: float, note: str) -> Question:
    """Whether ratios, given as logarithms, are below 1 by a factor that matters."""
    return Question(quantity, parts, below=1 / factor, tie=(1 / factor, factor), ratio=True, note=note)


def _finished(study: Study) -> list[Runs]:
    """The runs of those methods that came to their end."""
    finished = []
    for name in (*RIVALS, *CONTROLS):
        with suppress(Unanswered):
            finished.append(Runs.of(study, name, LOSS))
    return finished


STALLS = "Without tracking the error stalls at a level that heterogeneous data set, here for {}."
LOWEST = "Biased-DMT ends at the lowest training loss of all methods."
GT = "GT-DSGD copes with heterogeneous data, but without momentum it does worse than Biased-DMT."
MARGIN = f"margin {100 * SHARE:g} % of the way from the start to the lowest end"

FIG1 = [
    Claim(
        "fig1",
        "Biased-DSGD stalls: its floor of ‖∇F‖² is more than twice that of centralized SGD",
        STALLS.format("Biased-DSGD"),
        partial(stalls, "biased-dsgd"),
    ),
    Claim(
        "fig1",
        "DSGDm stalls: its floor of ‖∇F‖² is more than twice that of centralized SGD",
        STALLS.format("DSGDm"),
        partial(stalls, "dsgdm"),
    ),
    Claim(
        "fig1",
        "Biased-DMT reaches the floor that the bias sets: its floor of ‖∇F‖² is ‖ē‖² within ±20 %",
        "The error that is left to Biased-DMT comes from the bias alone.",
        bias_floor,
    ),
    Claim(
        "fig1",
        f"Biased-DMT ends at a lower loss than each of Biased-DSGD, DSGDm and GT-DSGD ({MARGIN})",
        LOWEST,
        partial(lowest_loss, RIVALS),
    ),
    Claim(
        "fig1",
        f"Biased-DMT ends at a lower loss than each control: GNSD, Momentum Tracking and centralized SGD ({MARGIN})",
        LOWEST + " These controls are ours.",
        partial(lowest_loss, CONTROLS),
    ),
    Claim(
        "fig1",
        "Biased-DMT descends fastest: it covers 95 % of the way from the start to the lowest end in fewer rounds than "
        "each of Biased-DSGD, DSGDm and GT-DSGD (margin 10 %, or one step of the grid of step sizes if that is more)",
        "Biased-DMT descends more steeply than the other methods.",
        fewest_rounds,
    ),
    Claim("fig1", "Biased-DMT has a lower floor of ‖∇F‖² than GT-DSGD (margin 10 %)", GT, lower_floor),
    Claim("fig1", f"Biased-DMT ends at a lower loss than GT-DSGD ({MARGIN})", GT, partial(lowest_loss, ("gt-dsgd",))),
]
