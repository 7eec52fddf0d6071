"""Write docs/papers.md: papers × claims × readings, from the verdicts of finished runs.

python docs/papers.py runs/papers       take the verdicts of the papers that were run there, and write the page
python docs/papers.py                   write the page from the verdicts that were stored
"""

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from findings import SIGNS
from tables import table

from gossamer.cli.reproduce import READINGS, tell
from gossamer.papers import Paper, installed
from gossamer.papers.paper import DEFAULT

HERE = Path(__file__).parent
FOUND = HERE / "assets" / "papers"

HEAD = """# Papers as tests

Each paper here is a folder of specs and claims that anyone can run again: `gossamer reproduce beer`. A claim has up
to two [readings](howto/ship-claims.md#two-readings), *as published* and *tuned alike*. Identities need no runs, and
are computed exactly. Margins were set before the first run; targets and budgets that decided nothing were changed
after it, as the remarks in bold say. Below each table stands what of the authors' setting was not followed. Claims
with a † are on other data or another model, judged in the spirit of the paper's, and never called reproduced. Each
`paper.toml` has its sources. `make papers` runs them all, and writes this page.

"""


def main(run: Path | None) -> None:
    """Store the verdicts of a run, if there is one, and write the page."""
    for name in installed() if run is not None else ():
        if run is not None and (file := run / name / "verdicts.json").is_file():
            FOUND.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, FOUND / f"{name}.json")
    (HERE / "papers.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page that the stored verdicts make."""
    papers = installed()
    found = {name: json.loads(file.read_text(encoding="utf-8")) for name in papers if (file := stored(name)).is_file()}
    rows = [
        (
            f"[{name}]({'reproduction.md' if name == DEFAULT else f'#{name}'})",
            papers[name].arxiv,
            *(counted(of_reading(verdicts, reading)) for reading in READINGS),
        )
        for name, verdicts in found.items()
    ]
    legend = ", ".join(f"{sign} {word}" for word, sign in SIGNS.items())
    text = HEAD + f"Verdicts, by reading ({legend}):\n\n" + table(["paper", "arXiv", *READINGS], rows)
    for name, verdicts in found.items():
        if name != DEFAULT:
            text += section(papers[name], verdicts)
    return text


def stored(name: str) -> Path:
    """Return the file of a paper's verdicts; the page of findings has those of Biased-DMT."""
    return HERE / "assets" / "reproduction" / "verdicts.json" if name == DEFAULT else FOUND / f"{name}.json"


def of_reading(verdicts: list[dict[str, Any]], reading: str) -> list[dict[str, Any]]:
    """Return the verdicts of a reading; the stored ones of Biased-DMT, which name none, are with numbers of ours."""
    return [row for row in verdicts if row.get("reading", READINGS[2]) == reading]


def counted(verdicts: list[dict[str, Any]]) -> str:
    counts = Counter(row["verdict"] for row in verdicts)
    return " ".join(f"{counts[word]} {sign}" for word, sign in SIGNS.items() if counts[word]) or "–"


def section(paper: Paper, verdicts: list[dict[str, Any]]) -> str:
    """Return what the page says about a paper: its claims in both readings, and what differs."""
    readings = [reading for reading in READINGS if of_reading(verdicts, reading)]
    claims: dict[str, dict[str, dict[str, Any]]] = {}
    for row in verdicts:
        claims.setdefault(row["claim"], {})[row["reading"]] = row
    rows = []
    for claim, by_reading in claims.items():
        first = next(iter(by_reading.values()))
        spirit = " †" if first["setting"] != "theirs" else ""
        cells = [f"{SIGNS[row['verdict']]} {tell(row)}" if (row := by_reading.get(one)) else "–" for one in readings]
        rows.append((claim + spirit, *cells))
    text = f"\n## {paper.name}\n\n{paper.citation}. {paper.about.about}\n\n" + table(["claim", *readings], rows) + "\n"
    for row in verdicts:
        if row["evidence"] is None and row["verdict"] != "not run":
            text += f"- *{row['reading']}*, {row['short']}: {row['measured']}.\n"
    for name, one in paper.experiments.items():
        differs = "; ".join(one.differs) or "nothing"
        text += (
            f"- `{name}` ({one.where}). Other than theirs: {differs}." + f" **{one.remark}**" * bool(one.remark) + "\n"
        )
    return text


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
