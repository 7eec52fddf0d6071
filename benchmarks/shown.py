"""What was measured, as text and as a plot."""

from pathlib import Path

import matplotlib.pyplot as plt

from benchmarks.scaling import Growth
from benchmarks.throughput import Contest
from benchmarks.timing import Spread

WORK = "Biased-DMT on a9a by label, ring of 20, batch 64, float32, no metrics; where it is another task, that is said."


def contest(found: Contest) -> str:
    lines = [f"\n{found.title}"]
    if found.apart:
        told = ", ".join(f"{value:.1g} in {dtype}" for dtype, value in found.apart.items())
        lines.append(f"  The same iterates on the same rows, to {told}.")
    lines.append(f"  {'':<26}{found.unit + '/s':>32}{'times ' + found.reference:>26}")
    for name, speed in found.speed.items():
        lines.append(f"  {name:<26}{speed.shown(',.0f'):>32}{found.against[name].shown('.2f'):>26}")
    return "\n".join(lines)


def growths(found: list[Growth]) -> str:
    lines = ["\nmicroseconds of a round on random logistic losses, batch 16, 50 rows an agent"]
    for growth in found:
        lines.append(f"  by {growth.size}, log-log slope {growth.slope:.2f}")
        for size, time in zip(growth.values, growth.microseconds, strict=True):
            lines.append(f"  {size:>26,}{time.shown(',.0f'):>32}")
    return "\n".join(lines)


def spreads(title: str, found: dict[str, Spread]) -> str:
    return f"\n{title}\n" + "\n".join(f"  {name:<36}{spread.shown(',.2f'):>30}" for name, spread in found.items())


def plot(contests: list[Contest], growths: list[Growth], path: Path) -> None:
    """Bars of what is compared, and the growth of a round's cost."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=[1.3, 1])
    bars = [(f"{found.title}: {name}", spread) for found in contests for name, spread in found.against.items()]
    for place, (_, spread) in enumerate(reversed(bars)):
        error = [[spread.median - spread.low], [spread.high - spread.median]]
        axes[0].barh(place, spread.median, xerr=error, color="#4477aa", error_kw={"lw": 0.8})
    axes[0].set_yticks(range(len(bars)), [name for name, _ in reversed(bars)], fontsize=6)
    axes[0].axvline(1, color="black", lw=0.6)
    axes[0].set_xlabel("times as fast as the reference of its contest")
    for growth in growths:
        medians = [spread.median for spread in growth.microseconds]
        axes[1].plot(growth.values, medians, marker="o", ms=3, label=f"{growth.size}, slope {growth.slope:.2f}")
    axes[1].set(xscale="log", yscale="log", xlabel="size", ylabel="microseconds of a round")
    axes[1].legend(fontsize=7, frameon=False)
    figure.savefig(path)
    plt.close(figure)
