"""Write docs/language.md from a finished run of examples/torch_language.py: every number on it comes from there.

python docs/language.py docs/assets/language/found.json
"""

import json
import sys
from pathlib import Path
from typing import Any

import drawing
import numpy as np
from matplotlib.figure import Figure
from tables import table

from gossamer.report.styles import style_methods
from gossamer.results.statistics import LEVEL, difference, half_width, interval

HERE = Path(__file__).parent
FIGURE = HERE / "assets" / "language" / "loss.png"
RULES = ("centralized-sgd", "d-psgd", "d-psgd", "biased-dmt")
"""The methods of the curves, in their order, for their looks."""
FIRST, OURS = "DDP, AdamW", "Biased-DMT, 16 local steps"

HEAD = (HERE / "templates" / "language.txt").read_text(encoding="utf-8")


class Curves:
    """The curves of a method, as arrays of seeds by looks."""

    def __init__(self, runs: list[list[dict[str, Any]]]):
        self.loss, self.sent, self.seconds = (
            np.array([[look[key] for look in run] for run in runs]) for key in ("loss", "sent", "seconds")
        )
        self.losses = np.array([[look["losses"] for look in run] for run in runs])
        """By kind of text."""

    def at_bytes(self, sent: float) -> np.ndarray:
        """Return the loss of each seed when a process has sent so much, on a line between two looks."""
        pairs = zip(self.sent, self.loss, strict=True)
        return np.array([np.interp(sent, one, loss) for one, loss in pairs])


def shown(values: np.ndarray, digits: int = 3) -> str:
    mean, half = interval(values)
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def shares(curves: dict[str, Curves], name: str) -> np.ndarray:
    """Return the seconds of a method at every look, as a share of the first's at its end, seed by seed."""
    return curves[name].seconds / curves[FIRST].seconds[:, -1:]


def draw(curves: dict[str, Curves]) -> Figure:
    """Draw the loss against bytes and against time."""
    figure = Figure(figsize=(9, 3.4), layout="constrained", dpi=150)
    panels: Any = figure.subplots(1, 2, sharey=True)
    for look, (name, found) in zip(style_methods(RULES), curves.items(), strict=True):
        mean = found.loss.mean(0)
        half = half_width(np.array(len(found.loss)), found.loss.std(0, ddof=1)) if len(found.loss) > 1 else 0 * mean
        for panel, x in zip(panels, (found.sent.mean(0) / 1e6, shares(curves, name).mean(0)), strict=True):
            panel.plot(x, mean, look.line, color=look.color, linewidth=1.2, label=name)
            panel.fill_between(x, mean - half, mean + half, color=look.color, alpha=0.2, linewidth=0)
    panels[0].set(
        xscale="symlog", xlim=(0, None), xlabel="MB sent by a process", ylabel="loss of the mean model, held out"
    )
    panels[1].set(xlabel=f"time; that of {FIRST} is 1")
    for panel in panels:
        panel.grid(alpha=0.25, linewidth=0.5)
    panels[1].legend(fontsize=7, frameon=False)
    return figure


def verdict(against: np.ndarray, mine: np.ndarray) -> str:
    """Say if losses are lower, higher or not told apart, on the same seeds."""
    mean, half = difference(against, mine, paired=True)
    word = "not told apart" if not abs(mean) > half else "lower" if mean < 0 else "higher"
    return f"{mean:+.3f} ± {half:.3f}: {word}"


def ends(curves: dict[str, Curves]) -> str:
    rows = [
        (
            name,
            shown(c.loss[:, -1]),
            f"{c.sent[:, -1].mean() / 1e6:.1f}",
            ", ".join(f"{seconds:.0f}" for seconds in c.seconds[:, -1]),
            "1" if name == FIRST else shown(shares(curves, name)[:, -1], 2),
        )
        for name, c in curves.items()
    ]
    return table(["", "loss at the end", "MB sent by a process", "seconds, by seed", "as a share of the first"], rows)


def against(curves: dict[str, Curves]) -> str:
    """Ours less each of the others: at the end, and when all have sent as much as ours at its end."""
    ours = curves[OURS]
    sent = float(ours.sent[:, -1].mean())
    rows = [
        (
            name,
            verdict(c.loss[:, -1], ours.loss[:, -1]),
            verdict(c.at_bytes(sent), ours.at_bytes(sent)) if c.sent[:, -1].mean() >= sent else "it sends less",
        )
        for name, c in curves.items()
        if name != OURS
    ]
    head = ["", "at the end, after as many steps", f"at {sent / 1e6:.1f} MB sent, its own at the end"]
    return table(head, rows)


def in_words(curves: dict[str, Curves]) -> str:
    """Say whether ours has the lowest mean loss."""
    (best, _) = min(curves.items(), key=lambda pair: pair[1].loss[:, -1].mean())
    favour = "It has the lowest mean loss of all." if best == OURS else f"The lowest mean loss is that of {best}."
    return f"{favour}\n"


def tabulate_tuning(found: dict[str, Any]) -> str:
    rows = []
    for name, tuning in found["tuning"].items():
        chosen, rates = tuning["chosen"], [one["lr"] for one in tuning["tried"]]
        edge = "yes" if chosen["lr"] in (min(rates), max(rates)) else "no"
        losses = sorted(one["loss"] for one in tuning["tried"])
        rows.append(
            (name, _short(chosen), f"{min(rates):g} to {max(rates):g}", edge, f"{losses[0]:.3f} to {losses[-1]:.3f}")
        )
    head = ["", "chosen rate", "tried rates", "at an edge", "losses"]
    return table(head, rows)


def _short(setting: dict[str, Any]) -> str:
    names = {"eta": "η", "lam": "λ"}
    return " ".join([f"{setting['lr']:g}", *(f"{names[key]}={value:g}" for key, value in setting["rule"].items())])


def page(found: dict[str, Any]) -> str:
    facts, curves = found["facts"], {name: Curves(runs) for name, runs in found["curves"].items()}
    spoken = [f"{kind}" for kind in facts["kinds"]]
    text = HEAD.format(
        **{key: facts[key] for key in ("parameters", "characters", "steps", "batch", "window", "tuning_steps")},
        kinds=", ".join(spoken[:-1]) + " and " + spoken[-1],
        first=FIRST,
        ours=OURS,
        budget=len(facts["rates"]),
        seeds=len(facts["seeds"]),
    )
    picture = drawing.picture("loss against bytes and time", "assets/language/loss.png")
    text += f"\n{picture}\n"
    text += f"\n## At the end\n\n{in_words(curves)}\n{ends(curves)}"
    text += (
        f"\nSeconds are those of training, without evaluation. Methods take turns of {facts['every']} steps in one "
        f"run. The four processes share {facts['cores']} cores and send over the loopback interface, where bytes are "
        f"cheap: on a real network the first panel matters more. {_load(facts)}\n"
    )
    text += f"\n## {OURS} less the others\n\nPaired by seed, each interval of {100 * LEVEL:.0f} %.\n\n"
    text += against(curves)
    text += (
        "\nAt equal bytes the others are in the middle of their runs, before their rate falls. A shorter run with its "
        "own schedule may have a lower loss; it was not run.\n"
    )
    text += f"\n## How they were tuned\n\n{tabulate_tuning(found)}"
    text += "\nBeyond a rate at an edge there may be a better one. The rates of all methods were raised once, after a "
    text += "trial in which DDP was best at its highest.\n"
    text += "\n## To repeat it\n\n```console\n$ make language\n```\n\n"
    text += (
        f"Made with Python {facts['python']}, whose text it is, and PyTorch {facts['torch']}, in "
        f"{facts['minutes']:.0f} minutes. Other versions of Python have other text.\n"
    )
    return text


def _load(facts: dict[str, Any]) -> str:
    if facts["load"] < 0.5:
        return "Nothing else ran on it."
    return f"The machine was shared: its load was {facts['load']:.1f} when the run began. Read ratios, not seconds."


def main(source: Path) -> None:
    found = json.loads(source.read_text(encoding="utf-8"))
    drawing.save(draw({name: Curves(runs) for name, runs in found["curves"].items()}), FIGURE)
    (HERE / "language.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python docs/language.py FILE, which `python examples/torch_language.py --out FILE` wrote")
    main(Path(sys.argv[1]))
