"""Figure 1: Biased-DMT against other methods under a biased oracle and data sorted by label."""

from contextlib import suppress
from functools import partial

from gossamer.claims.evidence import DMT, Runs, average, bias_sq, target
from gossamer.claims.intervals import decide, difference, log_ratio
from gossamer.claims.verdict import Claim, Finding, Insufficient
from gossamer.study import Study

RIVALS = ("biased-dsgd", "dsgdm", "gt-dsgd")
"""The methods that the paper compares with."""

CONTROLS = ("gnsd", "momentum-tracking", "centralized-sgd")
"""The methods that we add."""


def stalls(algorithm: str, study: Study) -> Finding:
    floor, reference = Runs.of(study, algorithm).floor(), Runs.of(study, "centralized-sgd").floor()
    note = f"floors {average(floor):.4g} and {average(reference):.4g}"
    parts = {"": log_ratio(floor, reference)}
    return decide("ratio of floors of ‖∇F‖²", parts, above=2, ratio=True, note=note)


def bias_floor(study: Study) -> Finding:
    runs = Runs.of(study)
    floor, bias = runs.floor(), bias_sq(study)
    note = f"floor {average(floor):.4g}, ‖ē‖² {average(bias):.4g}"
    with suppress(Insufficient):  # it is only told beside the rest
        note += f", floor of ‖∇F+ē‖² {average(runs.floor('stationarity')):.4g}"
    parts = {"": log_ratio(floor, bias)}
    return decide("floor of ‖∇F‖² over ‖ē‖²", parts, above=0.8, below=1.2, ratio=True, note=note)


def lowest_loss(others: tuple[str, ...], study: Study) -> Finding:
    own = Runs.of(study).final()
    theirs = {name: Runs.of(study, name).final() for name in others}
    note = f"final loss of {DMT} {average(own):.5g}"
    parts = {name: difference(own, loss) for name, loss in theirs.items()}
    return decide("final loss minus that of the other", parts, below=0, note=note)


def lower_floor(study: Study) -> Finding:
    own, other = Runs.of(study).floor(), Runs.of(study, "gt-dsgd").floor()
    note = f"floors {average(own):.4g} and {average(other):.4g}"
    return decide("ratio of floors of ‖∇F‖²", {"": log_ratio(own, other)}, below=1, ratio=True, note=note)


def fewest_rounds(study: Study) -> Finding:
    own = Runs.of(study)
    rivals = {name: Runs.of(study, name) for name in RIVALS}
    goal = target([own, *rivals.values(), *_finished(study)])
    rounds = own.arrivals(goal)
    theirs = {name: runs.arrivals(goal) for name, runs in rivals.items()}
    shown = ", ".join(f"{name} {average(each):.4g}" for name, each in {DMT: rounds, **theirs}.items())
    parts = {name: log_ratio(rounds, each) for name, each in theirs.items()}
    note = f"mean rounds to a loss of {goal:.5g}: {shown}"
    return decide("ratio of rounds to the other's", parts, below=1, ratio=True, note=note)


def _finished(study: Study) -> list[Runs]:
    """The controls that came to their end."""
    found = []
    for name in CONTROLS:
        with suppress(Insufficient):
            found.append(Runs.of(study, name))
    return found


STALLS = "Without tracking the error stalls at a level that heterogeneous data set, here for {}."
LOWEST = "Biased-DMT ends at the lowest training loss of all methods."
GT = "GT-DSGD copes with heterogeneous data, but without momentum it does worse than Biased-DMT."

COMPARISON = [
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
        "Biased-DMT ends at a lower loss than each of Biased-DSGD, DSGDm and GT-DSGD (margin 0)",
        LOWEST,
        partial(lowest_loss, RIVALS),
    ),
    Claim(
        "fig1",
        "Biased-DMT ends at a lower loss than each control: GNSD, Momentum Tracking and centralized SGD (margin 0)",
        LOWEST + " These controls are ours.",
        partial(lowest_loss, CONTROLS),
    ),
    Claim(
        "fig1",
        "Biased-DMT descends fastest: it covers 95 % of the way from the start to the lowest final loss in fewer "
        "rounds than each of Biased-DSGD, DSGDm and GT-DSGD (margin 0)",
        "Biased-DMT descends more steeply than the other methods.",
        fewest_rounds,
    ),
    Claim("fig1", "Biased-DMT has a lower floor of ‖∇F‖² than GT-DSGD (margin 0)", GT, lower_floor),
    Claim("fig1", "Biased-DMT ends at a lower loss than GT-DSGD (margin 0)", GT, partial(lowest_loss, ("gt-dsgd",))),
]
