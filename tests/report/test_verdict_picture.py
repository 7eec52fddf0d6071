"""The picture of a verdict stands where its numbers are, and summaries over variants count right."""

import math
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from gossamer.papers.verdicts import Claim, Question
from gossamer.report import drawings, page
from tests.report import made_up

VALUES = np.log([3.9, 4.0, 4.1])


def judged(**region):
    question = Question("a ratio", {"far": VALUES, "near": VALUES - math.log(1.9)}, ratio=True, **region)
    claim = Claim("e", "It is larger: by far (margin 10 %)", "Section V", "yes", "it may not", lambda study: question)
    return claim(made_up.study()).asdict()


def places(picture, kind):
    """The left and right ends of the rectangles of a class."""
    found = re.findall(rf'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="[\d.]+" class="{kind}"', picture)
    return [(float(x), float(x) + float(wide)) for x, wide in found]


def test_a_verdict_carries_what_its_picture_needs():
    row = judged(above=1.5, tie=(1 / 1.5, 1.5))
    assert (row["short"], row["verdict"]) == ("It is larger", "holds")
    evidence = row["evidence"]
    assert (evidence["region"], evidence["tie"]) == ([1.5, None], [1 / 1.5, 1.5])
    assert [part["decides"] for part in evidence["parts"]] == [False, True], "the one nearest to the edge"
    assert evidence["parts"][0]["value"] == pytest.approx(math.exp(VALUES.mean()))
    assert row["interval"] == [evidence["parts"][1]["low"], evidence["parts"][1]["high"]]


def test_bars_and_region_stand_on_one_logarithmic_scale():
    row = judged(above=1.5)
    evidence = row["evidence"]
    picture = drawings.draw_claim(evidence, "holds")
    numbers = [part[key] for part in evidence["parts"] for key in ("value", "low", "high")] + [1.5, 1.0]
    low, high = math.log(min(numbers)), math.log(max(numbers))
    low, high = low - 0.06 * (high - low), high + 0.06 * (high - low)

    def at(value):
        return drawings.EDGE + (drawings.WIDE - 2 * drawings.EDGE) * (math.log(value) - low) / (high - low)

    assert places(picture, "region") == [(pytest.approx(at(1.5), abs=0.1), pytest.approx(drawings.WIDE, abs=0.1))]
    dots = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', picture)]
    assert dots == pytest.approx([at(part["value"]) for part in evidence["parts"]], abs=0.06)
    assert picture.count('class="bar holds decides"') == 1


def test_an_interval_without_evidence_is_drawn_and_one_of_words_is_not():
    first, second, _ = made_up.VERDICTS
    assert page.find_evidence(first)["parts"][0]["value"] == first["measured"]
    assert page.find_evidence(second) is None
    assert page.find_evidence(first | {"interval": [made_up.HOSTILE, 1]}) is None


def ended(ends):
    """A study whose methods end in each variant at these values, one for each of three replicates."""
    base = made_up.result()
    study = made_up.study(tuple(f"v{k}" for k in range(len(ends))))
    kept = base.table.filter(pl.col("status") == "ok", pl.col("algorithm") != "d-psgd")
    states = {key: value for key, value in base.states.items() if key[0] != "d-psgd"}
    results = {}
    for variant, values in zip(study.results, ends, strict=True):
        value = pl.when(pl.col("algorithm") == "dsgt").then(values[1]).otherwise(values[0])
        table = kept.with_columns(grad_norm_sq=value * (1 + 0.01 * pl.col("replicate")))
        results[variant] = replace(base, table=table, states=states)
    return replace(study, results=results, tuning=None)


def test_the_profile_and_the_ranks_are_those_of_a_count_by_hand():
    found = page.profile(ended([(1.0, 2.0), (3.0, 3.3), (4.0, 2.0), (1.0, 1.0)]), "grad_norm_sq")
    first, second = found["methods"]
    assert found["factors"][:-1] == pytest.approx([1.0, 1.1, 2.0])
    assert first["shares"] == [0.75, 0.75, 1.0, 1.0]
    assert second["shares"] == [0.5, 0.75, 1.0, 1.0]
    assert (first["rank"], second["rank"]) == pytest.approx(((1 + 1 + 2 + 1.5) / 4, (2 + 2 + 1 + 1.5) / 4))
    assert page.profile(ended([(1.0, 2.0), (3.0, 3.3)]), "grad_norm_sq") is None, "two variants are no summary"
    assert page.profile(ended([(0.0, 2.0)] * 3), "grad_norm_sq") is None, "nothing has a ratio to zero"


def test_sensitivity_has_the_ends_and_the_stable_range():
    (ring, _) = page.sensitivity(made_up.study())
    methods = {one["label"]: one for one in ring["methods"]}
    assert methods["DSGT"]["eta"] == [0.001, 0.01, 0.1], "the step size that diverged is left out"
    assert methods["DSGT"]["mean"] == pytest.approx([0.501, 0.51, 0.6])
    tried = made_up.study().step_sizes("ring").filter(pl.col("algorithm") == "biased-dmt", pl.col("stable"))["eta"]
    assert methods["Biased-DMT"]["stable"] == [tried.min(), tried.max()]
