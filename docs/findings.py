"""Write docs/reproduction.md from a finished reproduction: every number and figure on it comes from the run.

python docs/findings.py runs/reproduction
"""

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import polars as pl

from gossamer.paper import EXPERIMENTS
from gossamer.paper.verdicts import WORDS
from gossamer.report.tables import four
from gossamer.results.study import Study

HERE = Path(__file__).parent
FIGURES = HERE / "assets" / "reproduction"

ABOUT = {
    "fig1": (
        "The methods that the paper compares, each tuned with the same budget, and three controls. Settings are chosen "
        "once by the loss, because the paper judges by it, and once by ‖∇F‖². Under a bias both favour a step so small "
        "that a method is still passing by when the tuning run ends; so the runs that were tuned by ‖∇F‖² went on "
        "until they had settled, and floors are read from them."
    ),
    "sensitivity": (
        "The loss at the end against the step size, at one momentum, and the range of step sizes that are stable: "
        "those around the best that end within 5 % of the way from the start to the lowest end."
    ),
    "fig2": (
        "Biased-DMT without bias and at five magnitudes, under both readings of when the bias is drawn. Whether the "
        "bias speeds up the start depends on its direction, which the paper leaves open, so both signs were run."
    ),
    "speedup": (
        "Biased-DMT on more and more agents: first how far noise moves the mean model at one step size and momentum, "
        "beside a run with exact gradients; then the error with the step size and momentum of the paper's Corollary 1, "
        "on graphs that meet its condition on T in the repaired form, T ≥ 16n²κ/ρ² with κ = max(1, 1/(4nρ²))."
    ),
    "topology": (
        "Biased-DMT on five graphs of 16 agents, tuned on each for the rounds that it takes to a loss of 0.41, and, "
        "for the floor, at one step size and momentum on all."
    ),
    "heterogeneity": (
        "Biased-DMT as the agents' data go evenly from alike to sorted by label, under an absolute and a relative bias."
    ),
}

SHOWN = {
    "fig1": (
        "fig1-00-by-loss-loss-rounds",
        "fig1-01-by-gradient-grad_norm_sq-rounds",
    ),
    "sensitivity": ("sensitivity-step-sizes",),
    "fig2": ("fig2-loss-rounds", "fig2-grad_norm_sq-rounds"),
    "speedup": (),
    "topology": (),
    "heterogeneity": ("heterogeneity-grad_norm_sq-rounds",),
}

SIGNS = {"holds": "✓", "does not hold": "✗", "tie": "=", "undecided": "?", "not run": "–", "not tested": "–"}
"""A verdict is told by a sign too, not by its colour alone."""

HEAD = """# What the reproduction found

{found}

<div class="gallery" markdown>
{pictures}
</div>

This page is written by `make findings` from a run of `make reproduce`; no number on it was typed. The interactive
report of the same run is `runs/reproduction/report.html`, and its verdicts are in
[verdicts.json](assets/reproduction/verdicts.json).

## All claims

{claims}
"""

JUDGED = """
## How it was judged

The paper describes its problem (a9a sorted by label over a ring of 20 agents, batches of 64, α = 0.01) but leaves open
the bias (μ, σ_e, and whether e_i is drawn once or at every query), the number of rounds, the grids, how a setting is
chosen, and the seeds. What was chosen here stands in the specs, which `gossamer reproduce NAME --spec` prints. A bias
was only admitted if ∇F = −ē has a solution for every seed: otherwise every method runs away, and there is no floor to
speak of.

A *replicate* is a seed, or, where hyper-parameters were tuned, a tuning on seeds of its own with evaluation seeds of
its own: what a choice owes to chance is part of every interval. Comparisons are paired over replicates. A claim
*holds* if its interval lies wholly inside what it says and *does not hold* if wholly outside. Where a difference is
smaller than the smallest that matters, stated with the claim, it is a *tie*. Otherwise it is *undecided*. What was not
run is *not run*, and a claim whose own conditions nothing meets is *not tested*. All intervals of the page hold
together at 95 % (Bonferroni over its claims and their comparisons), and each states its own level.

The end of a run is its last tenth, where tuning judges as well. A floor is the mean over the last half of runs that
have settled: from each of the last three quarters of the rounds to the next, the mean change is within ±5 %, or within
its own standard error where that is more, and its 95 % interval lies within ±30 %; or no change is significant, and the
loss has stopped, to 0.05 % of the way from the start. Runs that have not settled go on, twice as long each time, up to
the most that the spec states.

Grids, margins and the rule of settling were fixed on other seeds. One run with the seeds of this page came before it;
after that only the most rounds of the experiment on networks were lowered, to save time.
"""


def main(run: Path) -> None:
    verdicts = json.loads((run / "verdicts.json").read_text(encoding="utf-8"))
    studies = {name: Study.load(run / name) for name in EXPERIMENTS if (run / name / "study.json").is_file()}
    titles = {name: study.title for name, study in studies.items()}
    text = HEAD.format(found=counted(verdicts), pictures=pictures(titles), claims=overview(verdicts, titles))
    shutil.rmtree(FIGURES, ignore_errors=True)
    FIGURES.mkdir(parents=True)
    shutil.copyfile(run / "verdicts.json", FIGURES / "verdicts.json")
    for name, study in studies.items():
        text += section(name, study, [row for row in verdicts if row["experiment"] == name], run)
    text += JUDGED + repeated(studies)
    (HERE / "reproduction.md").write_text(text, encoding="utf-8")


def section(name: str, study: Study, verdicts: list[dict], run: Path) -> str:
    text = f"\n## {study.title}\n\n{ABOUT[name]} {lengths(study)}\n\n"
    for stem in SHOWN[name]:  # side by side, where there is room
        file = run / "figures" / f"{stem}.png"
        shutil.copyfile(file, FIGURES / file.name)
        text += f"![{study.title}: {stem}](assets/reproduction/{file.name}){{ width=450 }}\n"
    text += "\n" * bool(SHOWN[name]) + claims(verdicts) + "\n" + chosen(tomllib.loads(study.spec))
    if name == "sensitivity":
        text += "\n" + stable(study.step_sizes())
    elif study.tuning is not None:
        text += "\n" + tuned(study.tuning)
    return text


def badge(verdict: str) -> str:
    """A verdict in its colour, with its sign."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{SIGNS[verdict]} {verdict}</span>'


def counted(verdicts: list[dict]) -> str:
    """How many claims there are of each verdict."""
    counts = {word: sum(row["verdict"] == word for row in verdicts) for word in WORDS}
    said = ", ".join(f"{count} {badge(word)}" for word, count in counts.items() if count)
    return f"Of {len(verdicts)} claims: {said}."


def pictures(titles: dict[str, str]) -> str:
    """The last figure of every experiment that has one, each a link to its section."""
    shown = {name: SHOWN[name][-1] for name in titles if SHOWN[name]}
    return "\n\n".join(
        f"[![{titles[name]}](assets/reproduction/{stem}.png){{ .tall }} {titles[name]}](#{slug(titles[name])})"
        for name, stem in shown.items()
    )


def overview(verdicts: list[dict], titles: dict[str, str]) -> str:
    """Every claim with its verdict, under the experiment that it is about."""
    text = ""
    for name, title in titles.items():
        rows = [(badge(row["verdict"]), row["claim"]) for row in verdicts if row["experiment"] == name]
        text += f"\n**[{title}](#{slug(title)})**\n\n" + table(["verdict", "claim"], rows)
    return text.strip("\n")


def slug(title: str) -> str:
    """The anchor of a heading, as the page has it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def claims(verdicts: list[dict]) -> str:
    """Each claim of an experiment with its verdict, what was measured, and what the paper says."""
    return "".join(
        f"- {badge(row['verdict'])} **{row['claim']}.** Measured: {row['measured']}. *The paper: {row['paper']}*\n"
        for row in verdicts
    )


def extremes(column: pl.Series) -> tuple[str, str]:
    """The smallest and the largest number."""
    numbers: list[float] = column.drop_nulls().to_list()
    return four(min(numbers, default=None)), four(max(numbers, default=None))


def lengths(study: Study) -> str:
    """How long the runs are, and how many."""
    rounds = [max(rows["round"].to_list()) for one in study.results.values()
              for _, rows in one.table.group_by("algorithm", "setting")]  # fmt: skip
    seeds = [len(one.seeds) for one in study.results.values()]
    span = [
        f"{min(some):,}" if min(some) == max(some) else f"{min(some):,} to {max(some):,}" for some in (rounds, seeds)
    ]
    return f"{span[0]} rounds, {span[1]} seeds."


def chosen(spec: dict) -> str:
    """What the paper leaves open, and what was taken: the bias, the grids and fixed hyper-parameters."""
    variants = spec.get("variant", [])
    stages = [one["oracle"]["stages"] for one in variants if "stages" in one.get("oracle", {})]
    stages = stages or [spec["oracle"].get("stages", [])]
    lines = [f"- bias: {'; '.join(dict.fromkeys(_stage(stage) for some in stages for stage in some)) or 'none'}"]
    if "tuning" in spec:
        lines.append("- tuning: " + ", ".join(f"{key} {value}" for key, value in spec["tuning"].items()))
    fixed = [one for one in spec["algorithm"] if len(one) > 1]
    if fixed and not any(one.get("algorithm") for one in variants):
        lines.append("- " + "; ".join(", ".join(f"{key} {value}" for key, value in one.items()) for one in fixed))
    return "What the paper leaves open, and was chosen here:\n\n" + "\n".join(lines) + "\n"


def _stage(stage: dict) -> str:
    return ", ".join(f"{key} {value}" if key != "kind" else value for key, value in stage.items())


def tuned(frame: pl.DataFrame) -> str:
    rows = []
    for (variant, algorithm), tried in frame.group_by("variant", "algorithm", maintain_order=True):
        best = tried.filter(pl.col("chosen"))
        lost = tried.filter(pl.col("diverged") > 0).height
        each = " / ".join(dict.fromkeys(best["setting"].to_list()))
        values = " to ".join(extremes(best["value"]))
        rows.append((variant, f"`{algorithm}`", each, values, str(tried.height), str(lost)))
    head = ["variant", "method", "chosen in the replicates", "criterion", "settings tried in all", "of these diverged"]
    return table(head, rows)


def stable(tried: pl.DataFrame) -> str:
    """The stable step sizes, as the ranges of their ends over replicates."""
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


def repeated(studies: dict[str, Study]) -> str:
    manifest = next(iter(next(iter(studies.values())).results.values())).manifest
    kept = {key: value for key, value in manifest["versions"].items() if key not in ("source", "code")}
    versions = ", ".join(f"{name} {number}" for name, number in kept.items())
    return (
        "\n## To repeat it\n\n```console\n$ make reproduce\n$ make findings\n```\n\n"
        f"Made with {versions} on {manifest['machine']['cpu']}. Another CPU rounds differently in the last bits.\n"
    )


def table(head: list[str], rows: list[tuple]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "verdicts.json").is_file():
        sys.exit("usage: python docs/findings.py DIRECTORY, where `gossamer reproduce --out DIRECTORY` has run")
    main(Path(sys.argv[1]))
