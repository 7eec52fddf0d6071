"""Results of several runs side by side, with what they do not have in common."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from gossamer.core import InputError, brief, nearest
from gossamer.results.result import Result
from gossamer.results.settings import PROBLEM, Differences, differing, problem_of, told
from gossamer.results.study import Study, study_of

SIDE_BY_SIDE = "side-by-side"
"""The name of a study that puts others together."""

REFUSED = {"problem": PROBLEM, "agents": ("agents",), "dtype": ("dtype",)}
"""What results must have in common unless it is allowed to differ, and the settings that show it."""

Given = Result | Study


def concat(
    results: Mapping[str, Given] | Iterable[tuple[str, Given]], *, allow: str | Iterable[str] = (), title: str = ""
) -> Study:
    """Put the results of several runs side by side, as the variants of one study.

    Numbers that were not made under the same conditions are not put into one table unawares: results on different
    problems (other data by their checksum, another dimension, another F at the start or another [problem] in the spec),
    with different numbers of agents or in different precisions are refused. Whatever else differs and is known (the
    network, steps, seeds, the code) stands below the study's summary. An oracle is known only by the specs of runs.

    Args:
        results: by label, or as pairs of a label and a result. A study with variants brings each as "label: variant".
        allow: what may differ nevertheless: "problem", "agents", "dtype".
        title: of the study; the labels if it is not given.
    """
    allowed = [allow] if isinstance(allow, str) else list(allow)
    for word in allowed:
        if word not in REFUSED:
            raise InputError(f"concat(allow=…) does not know {brief(word)}; {nearest(word, REFUSED)}")
    studies = _studies(results)
    labelled = _labelled(studies)
    results_by_label = {label: study.results[variant] for label, (study, variant) in labelled.items()}
    problems = {label: problem_of(study.spec, variant) for label, (study, variant) in labelled.items()}
    differences = differing(results_by_label, problems)
    _refuse(differences, allowed)
    return Study(
        name=SIDE_BY_SIDE,
        title=title or ", ".join(studies),
        spec=_specs(studies),
        results={
            label: replace(results_by_label[label], spec=labelled[label][0].spec or None) for label in results_by_label
        },
        tuning=_tuning(labelled),
        facts={label: _facts(*labelled[label], label, differences) for label in labelled},
    )


def _studies(results: Any) -> dict[str, Study]:
    """What was given, each as a study, under labels that are all different."""
    pairs = list(results.items() if isinstance(results, Mapping) else results)
    studies: dict[str, Study] = {}
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"concat takes a dictionary of results, or pairs (label, result), but got {brief(pair)}.")
        label, given = pair
        if not isinstance(label, str) or not label.strip():
            raise InputError(f"a label must be text that says what a result is, but is {brief(label)}.")
        if label in studies:
            raise InputError(f"two results are called {brief(label)}: give each a label of its own.")
        studies[label] = study_of(given, label)
    if len(studies) < 2:
        raise InputError(f"concat puts several results side by side, but got {len(studies)}.")
    return studies


def _labelled(studies: dict[str, Study]) -> dict[str, tuple[Study, str]]:
    labelled: dict[str, tuple[Study, str]] = {}
    for label, study in studies.items():
        for variant in study.results:
            name = label if len(study.results) == 1 else f"{label}: {variant}"
            if name in labelled:
                raise InputError(f"two results are called {brief(name)}: give each a label of its own.")
            labelled[name] = study, variant
    return labelled


def _refuse(differences: Differences, allowed: list[str]) -> None:
    for word, keys in REFUSED.items():
        shown = {key: differences[key] for key in keys if key in differences}
        if shown and word not in allowed:
            raise InputError(
                f"these results differ in what they should share: {'; '.join(told(shown))}. If that is what you "
                f'compare, say so: allow=["{word}"].'
            )


def _specs(studies: dict[str, Study]) -> str:
    """The specs of all, as comments: they are several, and none describes the whole."""
    lines = ["# Results of several runs, side by side."]
    for label, study in studies.items():
        lines += ["#", f"# {' '.join(label.split())}:", *(f"#   {line}" for line in study.spec.splitlines())]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _tuning(labelled: dict[str, tuple[Study, str]]) -> pl.DataFrame | None:
    parts = [
        study.tuning.filter(pl.col("variant") == variant).with_columns(variant=pl.lit(label))
        for label, (study, variant) in labelled.items()
        if study.tuning is not None
    ]
    return pl.concat(parts, how="diagonal_relaxed") if parts else None


def _facts(study: Study, variant: str, label: str, differences: Differences) -> dict[str, Any]:
    """What was known of it, and the values in which it differs from others."""
    own = {key: values[label] for key, values in differences.items() if isinstance(values[label], (str, int, float))}
    return own | study.facts.get(variant, {})
