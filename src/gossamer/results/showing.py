"""What a prompt and a notebook show of results, studies and summaries: one line, and small tables."""

from typing import TYPE_CHECKING, Any

from gossamer.basics.html import Markup, panel, tag
from gossamer.basics.table import Table
from gossamer.basics.text import counted, some

if TYPE_CHECKING:
    from gossamer.results.result import Result
    from gossamer.results.study import Study
    from gossamer.results.summary import Summary

TEXTS = ("variant", "algorithm", "setting")
"""Columns of a summary that are read from the left."""


def result_line(result: "Result") -> str:
    """A result in one line: who ran, for how long, on what."""
    manifest = result.manifest
    about = [some(result.labels), f"{counted(len(result.seeds), 'seed')}, {counted(_rounds(result), 'round')}"]
    network, data = manifest.get("network") or {}, manifest.get("data") or {}
    if network:
        about.append(f"{network.get('name')}, {counted(int(network.get('agents') or 0), 'agent')}")
    if data:
        about.append(str(data.get("name")))
    return f"Result({'; '.join(about)})"


def result_html(result: "Result") -> Markup:
    return panel(tag("code", result_line(result)), summary_html(result.summary()))


def study_line(study: "Study") -> str:
    """A study in one line: its variants, its algorithms, and whether it was tuned."""
    algorithms = dict.fromkeys(label for result in study.results.values() for label in result.labels)
    variants = (
        [] if list(study.results) == [""] else [f"{counted(len(study.results), 'variant')}: {some(study.results)}"]
    )
    tuned = [] if study.tuning is None else [f"tuned over {counted(len(study.tuning), 'setting')}"]
    return f"Study({'; '.join([repr(study.name), *variants, some(algorithms), *tuned])})"


def study_html(study: "Study") -> Markup:
    return panel(tag("b", study.title), tag("div", tag("code", study_line(study))), summary_html(study.summary()))


def summary_html(summary: "Summary") -> Markup:
    """The table of a summary, and its notes."""
    head, body = summary.cells()
    notes = [tag("div", note, style="margin-top: 4px") for note in summary.notes]
    return tag("div", Table(head, body, [name not in TEXTS for name in head]).html(), *notes)


def _rounds(result: "Result") -> int:
    last: Any = result.table["round"].max()
    return int(last or 0)
