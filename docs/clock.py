"""Write docs/measured/clock.txt, a part of docs/howto/clock.md, from a finished `benchmarks/torch_clock.py`.

python docs/clock.py runs/bench
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gossamer.report.styles import COLORS

HERE = Path(__file__).parent
FIGURE = HERE / "assets" / "clock" / "clock.svg"

PAGE = (HERE / "templates" / "clock.txt").read_text(encoding="utf-8")


def draw(cases: list[dict[str, Any]]) -> Figure:
    """Seconds of each round: lines by the clock, dots as measured."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    worlds = sorted({case["processes"] for case in cases})
    panels = np.atleast_1d(figure.subplots(1, len(worlds), sharey=True))
    for panel, processes in zip(panels, worlds, strict=True):
        for number, case in enumerate(case for case in cases if case["processes"] == processes):
            rounds, color = range(1, len(case["predicted"]) + 1), COLORS[number % len(COLORS)]
            panel.plot(rounds, case["predicted"], color=color, linewidth=1, label=case["case"])
            panel.plot(rounds, case["measured"], "o", color=color, markersize=2.5)
        panel.set(title=f"{processes} processes", xlabel="round")
        panel.grid(alpha=0.25, linewidth=0.5)
    panels[0].set_ylabel("seconds: clock (lines), measured (dots)")
    panels[0].legend(fontsize=6, frameon=False)
    return figure


def page(found: dict[str, Any]) -> str:
    cases = found["cases"]
    middle = float(np.median([case["ratio"]["median"] for case in cases]))
    missed = [
        f"{case['case']}, {case['processes']} processes ({case['ratio']['median']:.3f})"
        for case in cases
        if not case["met"]
    ]
    verdict = "Holds" if abs(middle - 1) <= found["within"] else "Does not hold"
    words = {
        "TIMES": "once" if found["times"] == 1 else f"{found['times']} times",
        "MACHINE": found["machine"],
        "VERDICT": verdict,
        "MEDIAN": f"{middle:.3f}",
        "MET": f"{len(cases) - len(missed)} of {len(cases)}",
        "WITHIN": f"{found['within']:.0%}",
        "MISSED": "; ".join(missed) or "none",
    }
    text = PAGE
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def main() -> None:
    found = json.loads((Path(sys.argv[1]) / "clock.json").read_text())
    (HERE / "measured" / "clock.txt").write_text(page(found), encoding="utf-8")
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    draw(found["cases"]).savefig(FIGURE)


if __name__ == "__main__":
    main()
