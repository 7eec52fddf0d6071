"""Results of several runs side by side, and what differs between them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from gossamer.core import InputError, brief, nearest
from gossamer.results.differences import PROBLEM, describe_differences, find_differences, problem_of
from gossamer.results.result import Result
from gossamer.results.study import Study, study_of

SIDE_BY_SIDE = "side-by-side"
"""The name of a study that puts others together."""

REFUSED = {"problem": PROBLEM, "agents": ("agents",), "dtype": ("dtype",)}
"""Conditions that results must share unless they are allowed to differ, and the settings that show each."""


def concat(
    results: Mapping[str, Result | Study] | Iterable[tuple[str, Result | Study]],
    *,
    allow: str | Iterable[str] = (),
    title: str = "",
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
    labelled: dict[str, tuple[Study, str]] = {}
    for label, study in studies.items():
        for variant in study.results:
            name = label if len(study.results) == 1 else f"{label}: {variant}"
            if name in labelled:
                raise InputError(f"two results are called {brief(name)}: give each a label of its own.")
            labelled[name] = study, variant
    by_label = {label: study.results[variant] for label, (study, variant) in labelled.items()}
    problems = {label: problem_of(study.spec, variant) for label, (study, variant) in labelled.items()}
    differences = find_differences(by_label, problems)
    for word, keys in REFUSED.items():
        shown = {key: differences[key] for key in keys if key in differences}
        if shown and word not in allowed:
            raise InputError(
                f"these results differ in what they should share: {'; '.join(describe_differences(shown))}. If that is "
                f'what you compare, say so: allow=["{word}"].'
            )
    facts, tuning = {}, []
    for label, (study, variant) in labelled.items():
        own = {key: values[label] for key, values in differences.items()}
        plain = {key: value for key, value in own.items() if isinstance(value, (str, int, float))}
        facts[label] = plain | study.facts.get(variant, {})
        if study.tuning is not None:
            tuning.append(study.tuning.filter(pl.col("variant") == variant).with_columns(variant=pl.lit(label)))
    # as comments: the specs are several, and none describes the whole
    spec = ["# Results of several runs, side by side."]
    for label, study in studies.items():
        spec += ["#", f"# {' '.join(label.split())}:", *(f"#   {line}" for line in study.spec.splitlines())]
    return Study(
        name=SIDE_BY_SIDE,
        title=title or ", ".join(studies),
        spec="\n".join(line.rstrip() for line in spec) + "\n",
        results={label: replace(by_label[label], spec=study.spec or None) for label, (study, _) in labelled.items()},
        tuning=pl.concat(tuning, how="diagonal_relaxed") if tuning else None,
        facts=facts,
    )


def _studies(results: Any) -> dict[str, Study]:
    """Return what the user gave as studies by label. Raise InputError if there are not several, or two of one label."""
    studies: dict[str, Study] = {}
    for pair in list(results.items() if isinstance(results, Mapping) else results):
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
