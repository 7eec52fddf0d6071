"""Write docs/papers.md and a page for each paper, docs/papers/NAME.md, from the verdicts of finished runs.

python docs/papers.py runs/papers       take the verdicts of the papers that were run there, and write the pages
python docs/papers.py                   write the pages from the verdicts that were stored
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
after it, as the remarks in bold on the papers' pages say. There stands, too, what of the authors' setting was not
followed. Claims with a † are on other data or another model, judged in the spirit of the paper's, and never called
reproduced. `make papers` runs all papers, and writes these pages.

"""

OURS = READINGS[1:]
"""The readings whose numbers are not the authors'."""


def main(run: Path | None) -> None:
    """Store the verdicts of a run, if there is one, and write the pages."""
    for name in installed() if run is not None else ():
        if run is not None and (file := run / name / "verdicts.json").is_file():
            FOUND.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, FOUND / f"{name}.json")
    for place, text in pages().items():
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")


def pages() -> dict[Path, str]:
    """Return the pages that the stored verdicts make, by their files."""
    papers = installed()
    found = {name: json.loads(file.read_text(encoding="utf-8")) for name in papers if (file := stored(name)).is_file()}
    for row in found[DEFAULT]:  # which name no reading, since each experiment of that paper has one
        (row["reading"],) = papers[DEFAULT].readings_of(row["experiment"])
    made = {HERE / "papers.md": overview(papers, found)}
    return made | {
        HERE / page_of(name): paper_page(papers[name], rows) for name, rows in found.items() if name != DEFAULT
    }


def page_of(name: str) -> str:
    return "reproduction.md" if name == DEFAULT else f"papers/{name}.md"


def overview(papers: dict[str, Paper], found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the page of all papers: their verdicts by reading, and every claim with its effect sizes."""
    counts = [
        (
            f"[{name}]({page_of(name)})",
            papers[name].arxiv,
            *(counted([row for row in rows if row["reading"] == reading]) for reading in READINGS),
        )
        for name, rows in found.items()
    ]
    claims = [
        (f"[{name}]({page_of(name)})" if number == 0 else "", short + dagger(by_reading), *cells(by_reading))
        for name, rows in found.items()
        for number, (short, by_reading) in enumerate(by_claim(rows, "short").items())
    ]
    legend = ", ".join(f"{sign} {word}" for word, sign in SIGNS.items())
    return (
        f"{HEAD}Verdicts, by reading ({legend}):\n\n{table(['paper', 'arXiv', *READINGS], counts)}\n"
        "## Every claim\n\n"
        "The effect that decides, with its interval. The last column has the reading tuned alike, but for those that "
        "are marked: ° with numbers of ours, \\* exactly.\n\n"
        + table(["paper", "claim", READINGS[0], READINGS[1]], claims)
    )


def stored(name: str) -> Path:
    """Return the file of a paper's verdicts; the page of findings has those of Biased-DMT."""
    return HERE / "assets" / "reproduction" / "verdicts.json" if name == DEFAULT else FOUND / f"{name}.json"


def counted(verdicts: list[dict[str, Any]]) -> str:
    counts = Counter(row["verdict"] for row in verdicts)
    return " ".join(f"{counts[word]} {sign}" for word, sign in SIGNS.items() if counts[word]) or "–"


def by_claim(rows: list[dict[str, Any]], name: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the verdicts by claim, which is named by this field, and by reading."""
    claims: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        claims.setdefault(row[name], {})[row["reading"]] = row
    return claims


def dagger(by_reading: dict[str, dict[str, Any]]) -> str:
    """Return a † for a claim that was judged in another setting than the authors'."""
    return " †" * any(row.get("setting", "theirs") != "theirs" for row in by_reading.values())


def cells(by_reading: dict[str, dict[str, Any]]) -> list[str]:
    """Return the verdicts of a claim as published, and by the other reading that it has."""
    marks: dict[str, str] = dict(zip(OURS, ("", "°", "\\*"), strict=True))
    published = by_reading.get(READINGS[0])
    ours = next(((one, by_reading[one]) for one in OURS if one in by_reading), None)
    return [signed(published) if published else "–", signed(ours[1]) + marks[ours[0]] if ours else "–"]


def signed(row: dict[str, Any]) -> str:
    return f"{SIGNS[row['verdict']]} {tell(row)}"


def paper_page(paper: Paper, verdicts: list[dict[str, Any]]) -> str:
    """Return the page of a paper: each experiment with its setting, and its claims with what was measured."""
    link = f" ([arXiv](https://arxiv.org/abs/{paper.arxiv}))" * bool(paper.arxiv)
    text = f"# {paper.name}\n\n{paper.about.about}\n\n{paper.citation}{link}.\n\n"
    text += f"```console\ngossamer reproduce {paper.name}\n```\n"
    for name, one in paper.experiments.items():
        # the tuned one of two readings has a folder of its own
        rows = [row for row in verdicts if row["experiment"].removesuffix("-tuned") == name]
        followed = "The authors' setting" if one.setting == "theirs" else "In the spirit of the authors' setting"
        text += f"\n## {name}\n\n{one.where[0].upper() + one.where[1:]}. {followed}"
        text += (", but for:\n\n" + "".join(f"- {each}\n" for each in one.differs)) if one.differs else ".\n"
        text += f"\n**{one.remark}**\n" * bool(one.remark)
        text += f"\nNo reading as published: {one.published}.\n" * bool(one.published)
        for claim, by_reading in by_claim(rows, "claim").items():
            first = next(iter(by_reading.values()))
            text += f"\n### {first['short']}\n\n" + f"{claim}.\n\n" * (claim != first["short"])
            text += f"The paper ({first['section']}): {first['paper']} Why it could fail: {first['why']}\n\n"
            measured = [(reading, signed(row), row["measured"]) for reading, row in by_reading.items()]
            text += table(["reading", "verdict", "measured"], measured)
    return f"{text}\nRead in:\n\n" + "".join(f"- {source}\n" for source in paper.about.sources)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
