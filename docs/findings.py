"""Write docs/reproduction.md from a finished reproduction: every number and figure on it comes from the run.

python docs/findings.py runs/reproduction
"""

import json
import shutil
import sys
import tomllib
from pathlib import Path

import polars as pl

from gossamer.reproduction import EXPERIMENTS
from gossamer.study import Study
from gossamer.tables import four

HERE = Path(__file__).parent
FIGURES = HERE / "assets" / "reproduction"

ABOUT = {
    "fig1": (
        "The methods that the paper compares, each tuned with the same budget, and three controls. Settings are chosen "
        "by the final loss, because the paper judges by the loss; under a bias that favours a step so small that a "
        "method is still passing by the lowest loss when the run ends, and has not settled."
    ),
    "fig2": "Biased-DMT without bias and at five magnitudes, under both readings of when the bias is drawn.",
    "speedup": (
        "Biased-DMT with the step size and momentum of the paper's Corollary 1, on more and more agents. Both grow "
        "with n by that rule, and the larger step alone shortens the transient: a slope near −1/2 shows that the rule "
        "works as stated, not by itself that agents average each other's noise. Only the smallest networks meet the "
        "corollary's own condition T ≥ 16n²/ρ²."
    ),
    "topology": "Biased-DMT at one step size on five graphs of 16 agents.",
    "heterogeneity": "Biased-DMT as the agents' data differ more and more, under an absolute and a relative bias.",
}

SHOWN = {
    "fig1": ("loss", "grad_norm_sq"),
    "fig2": ("grad_norm_sq", "loss"),
    "speedup": ("grad_norm_sq",),
    "topology": ("grad_norm_sq", "consensus"),
    "heterogeneity": ("grad_norm_sq",),
}

HEAD = """# What the reproduction found

This page is written by `make findings` from a run of `make reproduce`; no number on it was typed. The interactive
report of the same run is `runs/reproduction/report.html`.

The paper describes its problem (a9a sorted by label over a ring of 20 agents, batches of 64, α = 0.01) but leaves open
the bias (μ, σ_e, and whether e_i is drawn once or at every query), the number of rounds, the grids, how a setting is
chosen, and the seeds. What was chosen here stands in the specs, which `gossamer reproduce NAME --spec` prints. A bias
was only admitted if ∇F = −ē has a solution for every seed: otherwise every method runs away, and there is no floor to
speak of.

A verdict *holds* if a 95 % interval lies wholly inside the claim, *does not hold* if wholly outside, and is
*undecided* otherwise; comparisons are paired over seeds. Under a bias the loss alone misleads, since a method may pass
by a lower loss on its way to where the bias holds it; so claims are judged by ‖∇F(x̄)‖² too, and the curves of
‖∇F(x̄) + ē‖² are in the report.
"""


def main(run: Path) -> None:
    verdicts = json.loads((run / "verdicts.json").read_text(encoding="utf-8"))
    studies = {name: Study.load(run / name) for name in EXPERIMENTS if (run / name / "study.json").is_file()}
    counts = {word: sum(row["verdict"] == word for row in verdicts) for word in ("holds", "does not hold", "undecided")}
    said = ", ".join(f"{count} × {word}" for word, count in counts.items())
    text = HEAD + f"\nVerdicts on {len(verdicts)} claims: {said}.\n"
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name, study in studies.items():
        text += section(name, study, [row for row in verdicts if row["experiment"] == name], run)
    text += repeated(studies)
    (HERE / "reproduction.md").write_text(text, encoding="utf-8")


def section(name: str, study: Study, verdicts: list[dict], run: Path) -> str:
    plan = next(iter(study.results.values())).manifest
    seeds = len(next(iter(study.results.values())).seeds)
    text = f"\n## {study.title}\n\n{ABOUT[name]} {plan['steps']:,} rounds, {seeds} seeds.\n\n"
    text += chosen(tomllib.loads(study.spec)) + "\n"
    rows = [(row["claim"], row["paper"], row["measured"], f"**{row['verdict']}**") for row in verdicts]
    text += table(["claim", "the paper", "measured", "verdict"], rows)
    for metric in SHOWN[name]:
        file = run / "figures" / f"{name}-{metric}-rounds.png"
        if file.is_file():
            shutil.copyfile(file, FIGURES / file.name)
            text += f"\n![{study.title}: {metric}](assets/reproduction/{file.name}){{ width=500 }}\n"
    if study.tuning is not None:
        text += "\n" + tuned(study.tuning)
    return text


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
    return "Chosen:\n\n" + "\n".join(lines) + "\n"


def _stage(stage: dict) -> str:
    return ", ".join(f"{key} {value}" if key != "kind" else value for key, value in stage.items())


def tuned(frame: pl.DataFrame) -> str:
    rows = []
    for (algorithm,), tried in frame.group_by("algorithm", maintain_order=True):
        best = tried.filter(pl.col("chosen"))
        lost = tried.filter(pl.col("diverged") > 0).height
        rows.append((f"`{algorithm}`", best["setting"][0], four(best["value"][0]), str(tried.height), str(lost)))
    return table(["method", "chosen", "loss on the tuning seeds", "settings tried", "of these diverged"], rows)


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
