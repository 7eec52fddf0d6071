"""Write docs/reproduction.md from a finished reproduction: every number and figure on it comes from the run.

python docs/findings.py runs/reproduction
python docs/findings.py horizon             only the figure of horizons, from the numbers that were stored
"""

import json
import math
import re
import shutil
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import drawing
import numpy as np
import polars as pl
from matplotlib.figure import Figure
from tables import table

import gossamer as gs
from gossamer.basics.text import format_number
from gossamer.papers import installed
from gossamer.papers.biased_dmt.claims import DMT, HORIZONS
from gossamer.papers.verdicts import OURS, WORDS
from gossamer.papers.vocabulary import Runs, bias_sq
from gossamer.problems import dpsgd_fixed_point
from gossamer.report.styles import style_methods
from gossamer.results.statistics import interval
from gossamer.results.study import Study

PAPER = installed()["biased-dmt"]
HERE = Path(__file__).parent
FIGURES = HERE / "assets" / "reproduction"

ABOUT = {
    "fig1": (
        "All methods are tuned by the loss at the end, which the paper judges by. Under a bias this is early "
        "stopping: a run passes the lowest loss on the way to its floor."
    ),
    "descent": (
        "Rounds until the loss stays at or below 0.42, for which all methods are tuned. The grid of λ resolves both "
        "minima, at λ = 1 and near λ = 0.06."
    ),
    "horizon": (
        "‖∇F‖² at the end of runs of 2,000, 8,000 and 32,000 rounds, with methods tuned anew at each horizon. "
        "Without tracking the fixed point depends on the step size (right, exactly, by Newton's method): a smaller "
        "step brings it closer to ‖ē‖² and takes longer. Biased-DMT lies below the line because a run passes below "
        "‖ē‖² before it settles there, and tuning for T finds the step that is lowest at T. {continued}"
    ),
    "sensitivity": (
        "A step size is stable if it and all steps between it and the best end within 5 % of the way from the start to "
        "the lowest end. Steps are compared in two units: the movement by a constant gradient in a round (η for "
        "Biased-DMT, η/(1 − β) for Momentum Tracking), and the weight of the newest gradient (λη and η)."
    ),
    "fig2": (
        "Biases of five magnitudes, drawn once or redrawn at every query, and both signs, since the paper leaves "
        "the direction open. Floors are ‖ē‖² plus the floor of ‖∇F + ē‖², which has the mean of ‖∇F‖² and less "
        "noise."
    ),
    "heterogeneity": "Splits from random (ζ² near 0) to sorted by label, under an absolute and a relative bias.",
    "speedup": (
        "The distance of the mean model from that of a run with exact gradients. Rows are dealt at random, so the "
        "noise of one agent does not depend on n."
    ),
    "corollary": (
        "Quadratics, started at the minimum, so that all error is noise, on graphs that meet the repaired condition "
        "T ≥ 16n²κ/ρ². A ring meets it in no affordable run."
    ),
    "topology": "Five graphs of 16 agents.",
    "start": (
        "Six graphs of 16 agents, with Biased-DMT tuned on each for the rounds to a loss of 0.43. The tracker "
        "starts from V⁰ = g⁰ as in Algorithm 1 (cold), from V⁰ = Wᵏg⁰ with k = 1/ρ (warm), or from the mean "
        "gradient (mean). Messages, bytes and seconds include the start."
    ),
}

SHOWN = {
    "fig1": ("fig1-loss-rounds",),
    "descent": ("descent-loss-rounds",),
    "horizon": ("horizon",),
    "sensitivity": ("sensitivity-step-sizes",),
    "fig2": ("fig2-loss-rounds", "fig2-grad_norm_sq-rounds"),
    "heterogeneity": ("heterogeneity-grad_norm_sq-rounds",),
    "speedup": (),
    "corollary": (),
    "topology": (),
    "start": (),
}

SIGNS = {"holds": "✓", "does not hold": "✗", "tie": "=", "undecided": "?", "not run": "–", "not tested": "!"}
"""A verdict is told by a sign too, not by its colour alone."""

HEAD = (HERE / "templates" / "reproduction-head.txt").read_text(encoding="utf-8")


def main(run: Path) -> None:
    verdicts = json.loads((run / "verdicts.json").read_text(encoding="utf-8"))
    studies = {name: Study.load(run / name) for name in PAPER.experiments if (run / name / "study.json").is_file()}
    titles = {name: study.title for name, study in studies.items()}
    text = HEAD.format(found=count_verdicts(verdicts), claims=overview(verdicts, titles))
    for stale in FIGURES.glob("*"):
        if stale.name != "robustness.json":  # of another run: docs/robustness.py writes it
            stale.unlink()
    FIGURES.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / "verdicts.json", FIGURES / "verdicts.json")
    settings = {name: choices(study.tuning) for name, study in studies.items() if study.tuning is not None}
    (FIGURES / "chosen.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    if "horizon" in studies:
        draw_horizons(studies["horizon"], run)
    for name, study in studies.items():
        text += section(name, study, [row for row in verdicts if row["experiment"] == name], run)
    least = 100 * min(row["level"] for row in verdicts if row["level"] is not None)
    judged = (HERE / "templates" / "reproduction-judged.txt").read_text(encoding="utf-8")
    text += judged.format(settings=describe_choices(studies), level=f"{least:.4g}") + describe_repetition(studies)
    (HERE / "reproduction.md").write_text(text, encoding="utf-8")


def section(name: str, study: Study, verdicts: list[dict], run: Path) -> str:
    about = ABOUT[name]
    if name == "horizon":
        about = about.format(continued=describe_continued(json.loads((FIGURES / "horizon.json").read_text("utf-8"))))
    text = f"\n## {study.title}\n\n{about}\n\n"
    for stem in SHOWN[name]:  # side by side, where there is room
        file = run / "figures" / f"{stem}.png"
        shutil.copyfile(file, FIGURES / file.name)
        picture = f"![{study.title}: {stem}](assets/reproduction/{file.name})"
        if (dark := file.with_name(f"{stem}-dark.png")).is_file():
            shutil.copyfile(dark, FIGURES / dark.name)
            picture = drawing.picture(f"{study.title}: {stem}", f"assets/reproduction/{file.name}")
        text += f"{picture}\n"
    text += "\n" * bool(SHOWN[name]) + claims(verdicts)
    if name == "sensitivity":
        text += "\n" + tabulate_stable(study.step_sizes())
    if name == "start":
        text += "\n" + tabulate_starts(study)
    return text


def choices(tuning: pl.DataFrame) -> dict:
    """List the chosen numbers of each method, replicate by replicate, by variant."""
    found: dict = {}
    for row in tuning.filter("chosen").sort("replicate").to_dicts():
        numbers = {key: row[key] for key in ("eta", "lam", "beta") if row.get(key) is not None}
        found.setdefault(row["variant"], {}).setdefault(row["algorithm"], []).append(numbers)
    return found


FIXED_POINTS = (0.016, 0.008, 0.004, 0.002, 0.001, 0.0005, 0.0001)
"""Step sizes of D-PSGD whose fixed points are solved for."""


def draw_horizons(study: Study, run: Path) -> None:
    """Draw error against horizon, and beside it the exact fixed points of D-PSGD against its step size."""
    parts = PAPER.spec_of("horizon").parts()
    last = study.results[HORIZONS[-1]]
    assert last.biases is not None
    e = np.asarray(last.biases[0], float)
    floor, W = float((e.mean(0) ** 2).sum()), parts.network.matrix()
    solved = run / "fixed_points.json"  # minutes of Newton's method, for the biases of this run alone
    if not solved.is_file():
        models = {eta: dpsgd_fixed_point(parts.problem, W, eta, e).mean(0) for eta in FIXED_POINTS}
        squares = {f"{eta:g}": float((parts.problem.gradient(x) ** 2).sum()) / floor for eta, x in models.items()}
        solved.write_text(json.dumps(squares), encoding="utf-8")
    fixed = json.loads(solved.read_text(encoding="utf-8"))
    assert study.tuning is not None
    choice = choices(study.tuning)[HORIZONS[0]][DMT][0]
    found: dict = {"fixed_points": fixed, "continued": run_on(choice), "errors": {}}
    for name in SHOWN_HORIZONS:
        values = []
        for horizon in HORIZONS:
            end, bias = Runs.of(study, name, horizon).end("grad_norm_sq"), bias_sq(study, horizon)
            logs = np.log([end[replicate] / bias[replicate] for replicate in end])
            values.append(
                [math.exp(logs.mean()), *np.exp(np.array([-1, 1]) * interval(logs)[1] + logs.mean()).tolist()]
            )
        found["errors"][name] = dict(zip(HORIZONS, values, strict=True))
    (FIGURES / "horizon.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    drawing.save(plot_horizons(found), run / "figures" / "horizon.png")


LONGER = 16
"""Times its horizon for which Biased-DMT is run on, to see where it settles."""


def run_on(choice: dict[str, float]) -> dict[str, list[float]]:
    """Run Biased-DMT on from the shortest horizon: ‖∇F‖² over ‖ē‖², least and largest over the seeds, by rounds."""
    parts = PAPER.spec_of("horizon").parts()
    steps = int(HORIZONS[0].removeprefix("T = ").replace(",", ""))
    rule, seeds = gs.BiasedDMT(**choice), parts.seeds
    result = gs.simulate(
        rule, parts.problem, parts.network, parts.oracle, steps=LONGER * steps, every=steps // 20, seeds=seeds
    )
    assert result.mean_bias is not None
    floors = dict(zip(seeds, (np.asarray(result.mean_bias, float) ** 2).sum(-1), strict=True))
    found = {}
    for end in (steps, LONGER * steps):  # of each, the last tenth
        rows = result.frame().filter(pl.col("round").is_between(0.9 * end, end)).group_by("seed")
        ratios = [mean / floors[seed] for seed, mean in rows.agg(pl.col("grad_norm_sq").mean()).iter_rows()]
        found[f"{end:,}"] = [min(ratios), max(ratios)]
    return found


def describe_continued(found: dict) -> str:
    (before, (low, high)), (after, (least, most)) = found["continued"].items()
    far = found["errors"]["biased-dsgd"][f"T = {before}"][0]
    return (
        f"With the step tuned for T = {before} its ‖∇F‖² is {low:.3g} to {high:.3g} times ‖ē‖² there, over the seeds, "
        f"and {least:.3g} to {most:.3g} times after {after} rounds. Biased-DSGD, tuned for T = {before}, ends at "
        f"{far:.3g} times ‖ē‖²."
    )


SHOWN_HORIZONS = {
    "biased-dsgd": "Biased-DSGD",
    "dsgdm": "DSGDm, β = 0.9",
    "dsgdm-gossip": "DSGDm, gossiped",
    DMT: "Biased-DMT",
}


def plot_horizons(found: dict) -> Figure:
    """Draw what `draw_horizons` measured: `python docs/findings.py horizon` draws it anew from the stored numbers."""
    figure = Figure(figsize=(7.0, 2.8), layout="constrained", dpi=200)
    panels: Any = figure.subplots(1, 2, sharey=True)
    left, right = panels
    rounds = [int(horizon.removeprefix("T = ").replace(",", "")) for horizon in HORIZONS]
    looks = dict(zip(SHOWN_HORIZONS, style_methods([*SHOWN_HORIZONS]), strict=True))
    for name, title in SHOWN_HORIZONS.items():
        middle, low, high = np.array([found["errors"][name][horizon] for horizon in HORIZONS]).T
        look: Any = {"color": looks[name].color, "marker": looks[name].symbol, "linestyle": looks[name].line}
        left.errorbar(rounds, middle, [middle - low, high - middle], ms=4, lw=1.2, capsize=2, label=title, **look)
    etas = [float(eta) for eta in found["fixed_points"]]
    look = {"color": looks["biased-dsgd"].color, "marker": looks["biased-dsgd"].symbol}
    right.plot(etas, list(found["fixed_points"].values()), ms=4, lw=1.2, label="fixed point of Biased-DSGD", **look)
    for axes, label in ((left, "horizon $T$, tuned there"), (right, r"step size $\eta$")):
        axes.set(xscale="log", yscale="log", xlabel=label)
        axes.axhline(1, color="0.5", lw=0.8, ls="--")
        axes.legend(frameon=False, fontsize=7)
    # room at both ends, so that the last label of this panel does not touch the first of the other
    left.set_xlim(rounds[0] / 1.5, rounds[-1] * 1.9)
    left.set_xticks(rounds, [f"{t:,}" for t in rounds])
    left.minorticks_off()
    right.set_xlim(0.6 * min(etas), 1.6 * max(etas))
    left.set_ylabel(r"$\|\nabla F\|^2 / \|\bar e\|^2$")
    return figure


def tabulate_starts(study: Study) -> str:
    """Write what the target takes from each start on each graph, with 95 % intervals over replicates."""
    goal, rows = tomllib.loads(study.spec)["tuning"]["target"], []
    for variant in study.results:
        runs, cells = Runs.of(study, DMT, variant), []
        for by, unit in {"round": 1, "messages": 1, "bytes_sent": 1e3}.items():
            mean, half = interval(np.array(list(runs.arrivals(goal, by).values())) / unit)
            cells.append(f"{mean:.3g} ± {half:.2g}")
        rows.append((variant, f"{study.facts[variant]['gap']:.3g}", *cells))
    head = ["graph, start", "ρ", "rounds", "messages", "kB sent by an agent"]
    return table(head, rows)


def badge(verdict: str) -> str:
    """Return a verdict in its colour, with its sign."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{SIGNS[verdict]} {verdict}</span>'


def count_verdicts(verdicts: list[dict]) -> str:
    """Count the claims of each verdict, those of the paper apart from ours."""
    lines = []
    for title, some in {
        "of the paper": [row for row in verdicts if row["section"] != OURS],
        "of our own": [row for row in verdicts if row["section"] == OURS],
    }.items():
        counts = {word: sum(row["verdict"] == word for row in some) for word in WORDS}
        lines.append(
            f"Of {len(some)} claims {title}: {', '.join(f'{n} {badge(word)}' for word, n in counts.items() if n)}."
        )
    return " ".join(lines)


def overview(verdicts: list[dict], titles: dict[str, str]) -> str:
    """Write the table of experiments with the verdict on each claim as its sign."""
    rows = []
    for name, title in titles.items():
        signs = " ".join(SIGNS[row["verdict"]] for row in verdicts if row["experiment"] == name)
        rows.append((f"`{name}`", f"[{title}](#{slug(title)})", signs))
    return table(["name", "experiment", "claims"], rows)


def slug(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def claims(verdicts: list[dict]) -> str:
    """List the claims of an experiment, each with its verdict, the deciding measurement and the paper's words."""
    return "".join(
        f"- {badge(row['verdict'])} **{row['claim']}.** {describe_measurement(row)}. "
        f"*{row['section']}{'.' if row['section'] == OURS else ': ' + row['paper']}*\n"
        for row in verdicts
    )


MANY = 3
"""Of a claim with more parts than this, the page shows only those that decide."""


def describe_measurement(row: dict) -> str:
    """Return the measurement that decides; verdicts.json has the notes, the levels and all parts."""
    parts = row["evidence"]["parts"]
    kept = [p for p in parts if p["decides"]] if len(parts) > MANY else parts
    text = ", ".join(f"{p['name']} {p['value']:.4g} [{p['low']:.4g}, {p['high']:.4g}]".strip() for p in kept)
    return f"{row['evidence']['quantity']}: {text}" + (
        f", the deciding one of {len(parts)}" if len(parts) > MANY else ""
    )


def extremes(column: pl.Series) -> tuple[str, str]:
    """Return the smallest and the largest number of a column."""
    numbers: list[float] = column.drop_nulls().to_list()
    return format_number(min(numbers, default=None)), format_number(max(numbers, default=None))


def lengths(study: Study) -> str:
    """Return the numbers of rounds and seeds, as ranges over variants."""
    rounds = [max(rows["round"].to_list()) for one in study.results.values()
              for _, rows in one.table.group_by("algorithm", "setting")]  # fmt: skip
    seeds = [len(one.seeds) for one in study.results.values()]
    span = [
        f"{min(some):,}" if min(some) == max(some) else f"{min(some):,} to {max(some):,}" for some in (rounds, seeds)
    ]
    return f"{span[0]}; {span[1]}"


def describe_choices(studies: dict[str, Study]) -> str:
    """Write the table of the choices that the paper leaves open: biases, grids and fixed hyper-parameters."""
    rows: list[tuple] = []
    for name, study in studies.items():
        spec = tomllib.loads(study.spec)
        several = [spec, *spec.get("variant", [])]
        stages = [stage for one in several for stage in one.get("oracle", {}).get("stages", [])]
        rows.append((f"`{name}`", lengths(study), biases(stages), describe_tuning(several), describe_fixed(several)))
    (usual, _), *_ = Counter(bias for _, _, bias, _, _ in rows).most_common()
    rows = [(name, runs, "as above" if bias == usual else bias, *rest) for name, runs, bias, *rest in rows]
    head = table(["name", "rounds; seeds", "bias", "tuned", "fixed"], rows)
    return f"The bias is {usual}, unless the table has another.\n\n{head}"


def biases(stages: list[dict]) -> str:
    """Summarise the oracle stages of an experiment, by kind."""
    texts = []
    if additive := [stage for stage in stages if stage["kind"] == "additive-bias" and stage["std"]]:
        numbers = {key: sorted({stage[key] for stage in additive}) for key in ("mean", "std")}
        spans = {
            key: " to ".join(f"{x:g}" for x in dict.fromkeys((some[0], some[-1]))) for key, some in numbers.items()
        }
        drawn = dict.fromkeys("redrawn" if stage["redraw"] else "drawn once" for stage in additive)
        texts.append(f"additive with μ {spans['mean']}, σ_e {spans['std']}, {' or '.join(drawn)}")
    texts += dict.fromkeys(f"relative, δ {one['delta']:g}" for one in stages if one["kind"] == "relative-bias")
    return "; ".join(texts) or "none"


def describe_tuning(several: list[dict]) -> str:
    """Summarise how an experiment is tuned: the range of η, the values of λ, the settings and the criterion."""
    given = [one["tuning"] for one in several if "tuning" in one]
    if not given:
        return "–"
    low, high = min(one["eta"][0] for one in given), max(one["eta"][1] for one in given)
    lams = given[0].get("grids", {}).get("lam")
    over = f", {len(lams)} values of λ" if lams else ""
    by = f"rounds to a loss of {given[0]['target']:g}" if "target" in given[0] else f"`{given[0]['criterion']}`"
    return f"{given[0]['budget']} settings, η from {low:g} to {high:g}{over}, by {by}"


def describe_fixed(several: list[dict]) -> str:
    """List the hyper-parameters that are not tuned; of those that differ between variants, say so."""
    if any("eta" in one.get("algorithm", {}) for one in several[1:]):
        return "by variant"
    kept = [one for one in several[0]["algorithm"] if len(one) > 1]
    return (
        "; ".join(f"`{one['name']}` " + ", ".join(f"{k} {v}" for k, v in one.items() if k != "name") for one in kept)
        or "–"
    )


def tabulate_stable(tried: pl.DataFrame) -> str:
    """Write the table of stable step sizes, as the ranges of their ends over replicates."""
    rows = []
    for (algorithm,), own in tried.group_by("algorithm", maintain_order=True):
        ends = own.filter("stable").group_by("replicate").agg(low=pl.col("eta").min(), high=pl.col("eta").max())
        if ends.is_empty():
            rows.append((f"`{algorithm}`", "none", "none"))
            continue
        lowest = "≤ " if ends["low"].min() == tried["eta"].min() else ""
        highest = "≥ " if ends["high"].max() == tried["eta"].max() else ""
        low, high = extremes(ends["low"]), extremes(ends["high"])
        rows.append((f"`{algorithm}`", f"{lowest}{low[0]} to {low[1]}", f"{high[0]} to {highest}{high[1]}"))
    return table(["method", "smallest stable step size, over replicates", "largest"], rows)


def describe_repetition(studies: dict[str, Study]) -> str:
    manifest = next(iter(next(iter(studies.values())).results.values())).manifest
    kept = {key: value for key, value in manifest["versions"].items() if key not in ("source", "code")}
    versions = ", ".join(f"{name} {number}" for name, number in kept.items())
    return (
        "\n## To repeat it\n\n```console\n$ make reproduce\n$ make findings\n```\n\n"
        f"Made with {versions} on {manifest['machine']['cpu']}. Another CPU rounds the last bits differently.\n"
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["horizon"]:
        known = json.loads((FIGURES / "horizon.json").read_text(encoding="utf-8"))
        drawing.save(plot_horizons(known), FIGURES / "horizon.png")
        sys.exit()
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "verdicts.json").is_file():
        sys.exit("usage: python docs/findings.py DIRECTORY, where `gossamer reproduce --out DIRECTORY` has run")
    main(Path(sys.argv[1]))
