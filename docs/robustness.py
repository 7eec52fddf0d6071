"""Repeat the reproduction where the paper leaves a choice open: other seeds, the other sign of the bias, another graph.

python docs/robustness.py runs/robustness writes docs/assets/reproduction/robustness.json and docs/robustness.md: every
verdict beside that of the page, and those that turn from "holds" to "does not hold" or back. Names of experiments after
the folder run only these; verdicts of the others stay as they were written before.
"""

import json
import re
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from findings import SIGNS
from tables import table

from gossamer.basics.sizes import cores
from gossamer.experiments import running
from gossamer.papers import installed
from gossamer.results.study import Study
from gossamer.specs.spec import Spec

PAPER = installed()["biased-dmt"]
EXPERIMENTS, CLAIMS = tuple(PAPER.experiments), PAPER.claims
HERE = Path(__file__).parent
FOUND = HERE / "assets" / "reproduction"

CHANGES = {"seeds": "other seeds", "sign": "the other sign of the bias", "graph": "the exponential graph"}
ON_A_RING = ("fig1", "descent", "horizon", "sensitivity", "fig2", "heterogeneity")
OPPOSITE = {("holds", "does not hold"), ("does not hold", "holds")}


def change_spec(name: str, change: str) -> str | None:
    """Return the text of an experiment's spec after a change; None where the change does not concern it."""
    text = PAPER.text_of(name)
    if change == "seeds":
        return re.sub(r"\b70(\d\d)\b(?=[,\]])", r"83\1", text).replace("first_seed = 1007000", "first_seed = 1083000")
    if change == "sign":
        flipped = re.sub(
            r"mean = (-?)0\.00(\d+)", lambda found: f"mean = {'' if found[1] else '-'}0.00{found[2]}", text
        )
        return flipped if flipped != text else None
    return text.replace('[network]\nname = "ring"', '[network]\nname = "exponential"') if name in ON_A_RING else None


def run(task: tuple[str, str, str]) -> None:
    """Run an experiment after a change, into its own folder."""
    out, change, name = task
    text = change_spec(name, change)
    assert text is not None
    running.run(Spec.of(tomllib.loads(text)), Path(out) / change / name, name=name, progress=False)
    print(f"{change}: {name} done", flush=True)


def main(out: Path, names: list[str]) -> None:
    """Run what is missing, and write the page."""
    tasks = [(str(out), change, name) for change in CHANGES for name in names if change_spec(name, change)]
    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        for _ in pool.map(run, tasks):
            pass
    write_page(out)


def write_page(out: Path) -> None:
    """Judge what was run, and write the page: a claim whose experiment was not run has a dash."""
    usual = {row["claim"]: row["verdict"] for row in json.loads((FOUND / "verdicts.json").read_text(encoding="utf-8"))}
    before = json.loads((FOUND / "robustness.json").read_text(encoding="utf-8"))
    found: dict = {}
    for change in CHANGES:
        done = [name for name in EXPERIMENTS if (out / change / name / "study.json").is_file()]
        verdicts = PAPER.judge({name: Study.load(out / change / name) for name in done})
        kept = {claim.claim for claim in CLAIMS if claim.experiment not in done}
        found[change] = {text: row for text, row in before[change].items() if text in kept}
        found[change] |= {verdict.claim: [verdict.verdict, verdict.measured] for verdict in verdicts}
    (FOUND / "robustness.json").write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    # a claim that names the ring says nothing about another graph: the page lists the measurements there separately
    elsewhere = [claim for claim in CLAIMS if claim.claim.startswith("On the ring") and claim.claim in found["graph"]]
    seen = {claim.brief: found["graph"].pop(claim.claim)[1].split("; ")[0] for claim in elsewhere}
    words = {(change, claim): word for change in found for claim, (word, _) in found[change].items()}
    turned = [(change, claim) for (change, claim), word in words.items() if (usual[claim], word) in OPPOSITE]
    rows = []
    for claim in CLAIMS:
        verdicts = [words.get((change, claim.claim), "not run") for change in CHANGES]
        if {*verdicts} - {usual[claim.claim], "not run"}:
            rows.append((claim.brief, *(SIGNS[word] for word in (usual[claim.claim], *verdicts))))
    counts = [f"{sum(change == one for one, _ in words)} with {text}" for change, text in CHANGES.items()]
    said = "; ".join(f"with {CHANGES[change]}: {claim}" for change, claim in turned)
    told = f"Verdicts that turn between holds and does not hold: {said or 'none'}."
    legend = ", ".join(f"{sign} {word}" for word, sign in SIGNS.items())
    page = (
        "# Robustness: verdicts under other choices\n\n"
        "The paper leaves choices open. Here the experiments of [the reproduction](reproduction.md) are repeated with "
        "other base seeds of tuning and runs, with the other sign of the bias's mean, and with the exponential graph "
        f"in place of the ring, each where it applies. `make robustness` writes this page; all measurements are in "
        f"[robustness.json](assets/reproduction/robustness.json).\n\n**{told}** Claims judged again: "
        f"{', '.join(counts)}. These verdicts differ ({legend}):\n\n"
        + table(["claim", "reproduction", *CHANGES.values()], rows)
        + "\nTwo claims name the ring. What was measured for them on the exponential graph:\n\n"
        + "".join(f"- {brief}: {text}.\n" for brief, text in seen.items())
    )
    (HERE / "robustness.md").write_text(page, encoding="utf-8")
    print(told)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(EXPERIMENTS):
        sys.exit("usage: python docs/robustness.py DIRECTORY [EXPERIMENT…]")
    main(Path(sys.argv[1]), sys.argv[2:] or list(EXPERIMENTS))
