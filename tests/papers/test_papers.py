"""Papers as folders: what is read, what is refused, the two readings, and tests of the vocabulary."""

import json
import runpy
import shutil
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.cli.reproduce import tell
from gossamer.papers import (
    Claim,
    Cost,
    End,
    Equal,
    Exactly,
    LowerLoss,
    Order,
    Paper,
    Question,
    Rank,
    Ratio,
    Slope,
    choose,
    installed,
    paper,
)
from gossamer.papers.vocabulary import rank_correlation, split_method
from tests.commands import gossamer
from tests.papers.made_up_studies import curves, result, study

SKELETON = Path(gs.__file__).parent / "cli" / "skeleton"


@pytest.fixture
def mine(tmp_path):
    """The skeleton of a paper, as `gossamer init --paper` writes it."""
    return Path(shutil.copytree(SKELETON, tmp_path / "mine"))


def change(folder, file, old, new):
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("name", installed())
def test_every_paper_is_complete_and_its_claims_are_about_what_its_specs_run(name):
    one = installed()[name]
    assert one.claims
    assert {claim.experiment for claim in one.claims} == set(one.experiments)
    assert len({claim.brief for claim in one.claims}) == len(one.claims)
    for claim in one.claims:
        assert claim.paper.endswith(".")
        assert claim.why.endswith(".")
        assert not claim.claim.endswith(".")
    assert one.about.sources
    for experiment, about in one.experiments.items():
        # of others' papers, what has no numbers of the authors says why
        assert bool(about.published) != ("as published" in one.readings_of(experiment)) or name == "biased-dmt"
    for quick in (False, True):
        for run in one.runs(quick=quick):
            assert run.spec.variants()


def test_papers_are_found_by_name_by_number_and_by_folder_and_without_one_it_is_biased_dmt(mine):
    assert choose([])[0].name == "biased-dmt"
    assert choose(["fig1", "fig2"]) == (installed()["biased-dmt"], ["fig1", "fig2"])
    assert choose(["beer"])[0] == choose(["2201.13320"])[0]
    found, names = choose([str(mine), "figure1"])
    assert (found.name, names) == ("mine", ["figure1"])
    assert not set(installed()) & set(installed()["biased-dmt"].experiments)  # or a word could mean both


REFUSED = [
    ("no claims", lambda at: (at / "claims.py").unlink(), "the paper mine has no claims"),
    ("an empty list", lambda at: (at / "claims.py").write_text("CLAIMS = []\n"), "must define CLAIMS, a list of Claim"),
    ("claims that fail", lambda at: (at / "claims.py").write_text("1 / 0\n"), "claims.py, line 1: ZeroDivisionError"),
    (
        "another method",
        lambda at: change(at, "claims.py", '["d-psgd"]', '["d2"]'),
        "about 'd2', which figure1.toml does",
    ),
    (
        "a variant",
        lambda at: change(at, "claims.py", '["d-psgd"]', '["d-psgd @ star"]'),
        "about the variant 'star', but",
    ),
    (
        "another experiment",
        lambda at: change(at, "claims.py", '        "figure1"', '        "figure2"'),
        "does not exist",
    ),
    ("no spec", lambda at: (at / "figure1.toml").unlink(), "experiment.figure1] has no spec"),
    ("no TOML", lambda at: (at / "paper.toml").write_text("title ="), "is not TOML"),
    ("no experiment", lambda at: (at / "paper.toml").write_text('title = "t"\n'), "'authors' is missing"),
    ("a wrong key", lambda at: change(at, "paper.toml", "about =", "abuot ="), "key 'abuot' is not known"),
    ("no difference", lambda at: change(at, "paper.toml", '"theirs"', '"in the spirit of"'), "differs is empty"),
    ("a wrong setting", lambda at: change(at, "paper.toml", '"theirs"', '"ours"'), "key 'experiment.figure1.setting'"),
]


@pytest.mark.parametrize(("how", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_paper_that_cannot_be_judged_is_refused_before_anything_runs(mine, tmp_path, how, said):
    how(mine)
    done = gossamer("reproduce", mine, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_two_papers_of_one_name_or_number_are_refused(mine, tmp_path, monkeypatch):
    beer, other = installed()["beer"].folder, mine.rename(tmp_path / "beer")
    with pytest.raises(gs.InputError, match="two papers have the name beer: "):
        choose([str(other)])
    monkeypatch.setattr(paper, "_folders", lambda: [beer, other])
    with pytest.raises(gs.InputError, match="two papers have the name beer: "):
        installed()
    renamed = other.rename(tmp_path / "twin")
    change(renamed, "paper.toml", '# arxiv = "2601.00001"', 'arxiv = "2201.13320"')
    monkeypatch.setattr(paper, "_folders", lambda: [beer, renamed])
    with pytest.raises(gs.InputError, match=r"two papers have the arXiv number 2201\.13320"):
        installed()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fig99"], "there is no paper and no experiment 'fig99'"),
        (["beer", "fig1"], "there is no experiment 'fig1' in beer; choose from algorithms"),
        (["./nothing"], "'./nothing' is no paper"),
        (["fig1", "beer"], "there is no experiment 'beer' in biased-dmt"),
    ],
)
def test_unknown_papers_and_experiments_are_refused(words, said):
    with pytest.raises(gs.InputError) as refused:
        choose(words)
    assert said in str(refused.value)


def test_a_spec_with_numbers_and_a_tuning_has_two_readings(mine):
    readings = Paper.load(mine).readings_of("figure1")
    published, alike = readings["as published"], readings["tuned alike"]
    assert published.tuning is None
    assert [one["eta"] for one in published.algorithm] == [0.05, 0.05]
    assert [set(one) for one in alike.algorithm] == [{"name"}, {"name"}]
    assert alike.tuning.budget == 8
    assert [run.name for run in Paper.load(mine).runs()] == ["figure1", "figure1-tuned"]
    change(mine, "paper.toml", "differs = []", 'differs = []\nkeep = ["eta"]')
    assert [set(one) for one in Paper.load(mine).readings_of("figure1")["tuned alike"].algorithm] == [
        {"name", "eta"}
    ] * 2


def test_numbers_that_are_left_open_have_the_tuned_reading_alone_and_no_tuning_has_the_other(mine):
    change(mine, "figure1.toml", 'name = "d-psgd"\neta = 0.05', 'name = "d-psgd"')
    assert list(Paper.load(mine).readings_of("figure1")) == ["tuned alike"]
    assert list(installed()["biased-dmt"].readings_of("fig2")) == ["with our numbers"]


def test_the_skeleton_of_a_paper_runs_and_is_judged_in_both_readings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert gossamer("init", "--paper", "mine").returncode == 0
    assert sum(len(file.read_text("utf-8").splitlines()) for file in (tmp_path / "mine").iterdir()) < 60
    assert "exists" in gossamer("init", "--paper", "mine").stderr
    change(tmp_path / "mine", "figure1.toml", "steps = 500", "steps = 40")
    done = gossamer("reproduce", "./mine", "--out", "out", "--processes", "1", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["reading"] for row in rows] == ["as published", "tuned alike"]
    assert {row["setting"] for row in rows} == {"theirs"}
    assert all(row["interval"] and row["level"] == pytest.approx(1 - 0.05 / 2) for row in rows)
    assert (tmp_path / "out" / "report.html").is_file()


def ask(test, world, error=0.05):
    return Claim("x", "c", "s", "p.", "w.", test)(world, error)


WORLD = study(
    {
        "small": result({"a": curves(1e-3, loss=0.30, speed=60), "b": curves(2e-3, loss=0.34, speed=100)}),
        "large": result({"a": curves(4e-3, loss=0.30, speed=90), "b": curves(4.1e-3, loss=0.341, speed=200)}),
    },
    {"small": {"gap": 0.1}, "large": {"gap": 0.4}},
)
NORM = End("grad_norm_sq")


@pytest.mark.parametrize(
    ("test", "word"),
    [
        (Ratio(NORM, "a @ small", ["b @ small"], below=0.6), "holds"),
        (Ratio(NORM, "a @ small", ["b @ small"], below=0.4), "does not hold"),
        (Ratio(NORM, "b @ small", ["a @ small"], above=1.5), "holds"),
        (Ratio(NORM, "a @ large", ["b @ large"]), "tie"),
        (Ratio(NORM, "a @ large", ["b @ large"], below=0.5), "does not hold"),  # a region of its own knows no tie
        (Ratio(Cost(0.4), "a @ small", ["b @ small"]), "holds"),
        (Ratio(Cost(0.4, pays="bytes_sent"), "b @ small", ["a @ small"]), "does not hold"),
        (Ratio(Cost(0.32), "a @ small", ["b @ small"]), "holds"),  # the other never arrives
        (Ratio(Cost(0.32), "b @ small", ["a @ small"]), "does not hold"),
        (Ratio(Cost(0.2), "a @ small", ["b @ small"]), "undecided"),  # neither does
        (Equal(NORM, "a @ large", ["b @ large"], within=1.2), "holds"),
        (Equal(NORM, "a @ small", ["b @ small"], within=1.2), "does not hold"),
        (LowerLoss("a @ small", ["b @ small"]), "holds"),
        (LowerLoss("a @ small", ["a @ large"]), "tie"),
        (Slope(NORM, ["a @ small", "a @ large"], "gap", above=0.9, below=1.1), "holds"),
        (Slope(NORM, ["a @ small", "a @ large"], {"a @ small": 1, "a @ large": 16}, above=0.9), "does not hold"),
        (Slope(Cost(0.2), ["a @ small", "a @ large"], "gap", below=0.0), "undecided"),
        (Order(NORM, ["a @ small", "b @ small", "a @ large"]), "holds"),
        (Order(NORM, ["a @ small", "b @ small", "a @ large", "b @ large"]), "tie"),
        (Rank(NORM, {"a @ small": 1, "b @ small": 3, "a @ large": 7}, above=0.9), "holds"),
        (Rank(NORM, {"a @ small": 7, "b @ small": 3, "a @ large": 1}, above=0.9), "does not hold"),
        (Exactly(lambda: {"n = 4": 1e-16, "n = 8": 0.0}), "holds"),
        (Exactly(lambda: {"n = 4": 1e-16, "n = 6": 0.1}), "does not hold"),
        (Ratio(NORM, "a @ other", ["b @ small"]), "not run"),
        (Ratio(NORM, "c @ small", ["b @ small"]), "not run"),
        (lambda _: 1 / 0, "not tested"),
        (lambda _: "no question", "not tested"),
        (lambda _: Question("q", {}), "not tested"),
    ],
)
def test_tests_of_the_vocabulary(test, word):
    verdict = ask(test, WORLD)
    assert verdict.verdict == word, verdict.measured


def test_a_claim_that_raises_says_what_and_where():
    measured = ask(lambda _: {}["no such key"], WORLD).measured
    assert "its test failed at " in measured
    assert "KeyError: 'no such key'" in measured


def test_methods_and_ranks():
    assert split_method("beer @ ring 5") == ("beer", "ring 5")
    assert split_method("beer") == ("beer", "")
    assert rank_correlation([1, 2, 3, 4], [10, 30, 20, 40]) == pytest.approx(0.8)
    assert rank_correlation([1, 2, 2, 3], np.array([1.0, 2.0, 2.0, 3.0])) == pytest.approx(1.0)


def test_only_in_the_authors_setting_and_with_their_numbers_is_a_claim_called_reproduced(mine):
    def said(reading):
        row = vars(next(one for one in Paper.load(mine).judge({}, ["figure1"]) if one.reading == reading))
        assert row["verdict"] == "not run"
        return tell(row | {"verdict": "holds"}), row["differs"]

    assert said("as published") == ("reproduced", ())
    assert said("tuned alike") == ("holds", ())
    change(mine, "paper.toml", "differs = []", 'differs = ["other data"]')
    assert said("as published") == ("reproduced", ("other data",))
    change(mine, "paper.toml", '"theirs"', '"in the spirit of"')
    assert said("as published") == ("holds", ("other data",))


def test_the_pages_of_papers_are_made_of_the_stored_verdicts():
    docs = Path(gs.__file__).parents[2] / "docs"
    sys.path.insert(0, str(docs))
    try:
        made = runpy.run_path(str(docs / "papers.py"))["pages"]()
    finally:
        sys.path.remove(str(docs))
    assert {place.stem for place in made} == {*installed(), "papers"} - {"biased-dmt"}
    for place, text in made.items():
        assert place.read_text(encoding="utf-8") == text
    for file in (docs / "assets" / "papers").glob("*.json"):
        rows = json.loads(file.read_text(encoding="utf-8"))
        claims = installed()[file.stem].claims
        assert {row["claim"] for row in rows} == {claim.claim for claim in claims}


def test_other_seeds_are_other_seeds_of_runs_and_of_tuning_and_nothing_else():
    for run, other in zip(installed()["beer"].runs(), installed()["beer"].runs(reseed=50), strict=True):
        assert other.spec.run.seeds == [seed + 50 for seed in list(run.spec.run.seeds)]  # pyright: ignore
        if run.spec.tuning:
            assert other.spec.tuning.first_seed == run.spec.tuning.first_seed + 50
        same = {"seeds": 1}, {"first_seed": 1_000_000}
        plain = [
            one.model_copy(
                update={
                    "run": one.run.model_copy(update=same[0]),
                    "tuning": one.tuning and one.tuning.model_copy(update=same[1]),
                }
            )
            for one in (run.spec, other.spec)
        ]
        assert plain[0].model_dump() == plain[1].model_dump()


def test_an_installed_package_brings_its_papers_by_an_entry_point(mine, monkeypatch):
    (mine / "__init__.py").touch()
    monkeypatch.syspath_prepend(mine.parent)
    points = [metadata.EntryPoint("mine", "mine", "gossamer.papers")]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == "gossamer.papers" else [])
    assert installed()["mine"].folder == mine
    assert choose(["mine"])[0].claims
    points.append(metadata.EntryPoint("other", "no_such_package", "gossamer.papers"))
    with pytest.raises(gs.InputError, match=r"names no_such_package, which is no package"):
        installed()


def test_papers_are_listed_with_their_numbers_and_claims():
    done = gossamer("list", "papers", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert next(iter(rows)) == "biased-dmt"
    assert (rows["beer"]["arxiv"], rows["beer"]["claims"]) == ("2201.13320", len(installed()["beer"].claims))
    assert "2405.20114" in gossamer("list", "papers").stdout


def test_identities_are_computed_once_and_have_no_level():
    one = installed()["exponential-graphs"]
    rows = [verdict for verdict in one.judge({"transient": WORLD}) if verdict.reading == "exactly"]
    assert [row.verdict for row in rows] == ["holds"] * 3
    assert {(row.level, row.setting, row.differs) for row in rows} == {(None, "theirs", ())}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in installed() if name != "biased-dmt"])
def test_the_quick_form_of_every_paper_is_judged(name, tmp_path):
    done = gossamer("reproduce", name, "--quick", "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["claim"] for row in rows} == {claim.claim for claim in installed()[name].claims}
    assert not {row["verdict"] for row in rows} & {"not run", "not tested"}
