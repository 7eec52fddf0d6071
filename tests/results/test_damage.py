"""Damaged, foreign and hostile directories: said, never believed, never a traceback."""

import io
import json
import os
import shutil
import sys

import numpy as np
import polars as pl
import pytest

import gossamer as gs
from gossamer.cli import main
from gossamer.results.files import mark, sealed, unsealed
from gossamer.results.npz import packed
from gossamer.results.study import Study
from tests.paper.made_up_studies import fig1, fig2

SPEC = '[problem]\nname = "quadratic"\n'


def made_up(variants):
    """A small study with tuning, facts and a spec."""
    tuning = pl.DataFrame(
        {
            "variant": [variant for variant in variants for _ in range(2)],
            "replicate": [0] * 2 * len(variants),
            "algorithm": ["biased-dmt"] * 2 * len(variants),
            "setting": ["eta=0.1", "eta=1"] * len(variants),
            "eta": [0.1, 1.0] * len(variants),
            "criterion": ["loss"] * 2 * len(variants),
            "value": [0.3, None] * len(variants),
            "diverged": [0, 2] * len(variants),
            "extension": [0, 1] * len(variants),
            "chosen": [True, False] * len(variants),
        }
    )
    facts = {"agents": 3, "network": "ring", "gap": 0.5, "edges": [[0, 1], [1, 2]], "links": 2}
    facts |= {"classes": ["-1", "1"], "counts": [[3, 4], [5, 6], [0, 1]]}
    worlds = fig1() if len(variants) == 1 else fig2()
    results = dict(zip(variants, worlds.results.values(), strict=False))
    return Study("made-up", "A title", SPEC, results, tuning, {variant: facts for variant in variants})


@pytest.fixture(scope="module", params=[("",), ("a", "../b")], ids=["single", "variants"])
def whole(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    folder.mkdir()
    made_up(request.param).save(folder)
    Study.load(folder)
    return folder


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_any_changed_bit_is_found(run):
    """150 bits of each study, every file among them, and a cut of each."""
    assert {path.name for path in files(run)} == {
        *("arrays.npz", "manifest.json", "result.parquet", "spec.toml", "study.json", "tuning.parquet")
    }
    rng, found = np.random.default_rng(0), files(run)
    for number in range(150):
        path = found[number % len(found)]
        data = path.read_bytes()
        changed = bytearray(data)
        bit = rng.integers(8 * len(data))
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(gs.InputError, match=r"is damaged|another version"):
            Study.load(run)
        path.write_bytes(data)
    for path in found:
        data = path.read_bytes()
        path.write_bytes(data[: rng.integers(len(data))])
        with pytest.raises(gs.InputError, match="is damaged"):
            Study.load(run)
        path.write_bytes(data)
    Study.load(run)


@pytest.mark.parametrize("name", ["result.parquet", "arrays.npz", "manifest.json", "spec.toml"])
def test_a_result_of_its_own_is_guarded_as_well(tmp_path, name):
    result = gs.Result(**{**vars(fig1().results[""]), "spec": SPEC})
    result.save(tmp_path / "run")
    assert gs.Result.load(tmp_path / "run").spec == SPEC
    path = tmp_path / "run" / name
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for bit in rng.integers(8 * len(data), size=10):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(gs.InputError, match=r"is damaged|another version"):
            gs.Result.load(tmp_path / "run")


@pytest.mark.parametrize("how", ["missing", "directory", "empty", "garbage", "text", "broken link", "pipe"])
def test_what_is_not_the_file_is_said(run, how):
    for path in files(run):
        if how == "missing" and path.name == "study.json":
            continue  # what is left is a result on its own, or none
        data = path.read_bytes()
        path.unlink()
        if how == "directory":
            path.mkdir()
        elif how == "broken link":
            path.symlink_to(run / "nothing")
        elif how == "pipe":
            os.mkfifo(path)
        elif how != "missing":
            path.write_bytes({"empty": b"", "garbage": b"\xff\x00\x93NUMPY\n" * 50, "text": b"hello"}[how])
        with pytest.raises(gs.InputError, match=r"is damaged|holds no finished run"):
            Study.load(run)
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        path.write_bytes(data)


def test_links_to_files_and_directories_are_fine(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    for path in files(run):
        target = tmp_path / "elsewhere" / f"{path.parent.name}-{path.name}"
        path.rename(target)
        path.symlink_to(target)
    (tmp_path / "link").symlink_to(run)
    Study.load(tmp_path / "link")


def forge(run, file, change):
    """Change a file's bytes, or what a record holds, and make every checksum right again."""
    path = run / file
    data, record = path.read_bytes(), path.suffix == ".json"
    path.write_bytes(sealed(change(unsealed(file, data))) if record else change(data))
    for owner in [*run.rglob("manifest.json"), run / "study.json"]:
        if owner != path:
            known = unsealed(owner.name, owner.read_bytes())
            known["files"] = {name: mark((owner.parent / name).read_bytes()) for name in known["files"]}
            owner.write_bytes(sealed(known))


def table(change):
    def changed(data):
        made = io.BytesIO()
        change(pl.read_parquet(io.BytesIO(data))).write_parquet(made)
        return made.getvalue()

    return changed


def deep(value, levels=15):
    return value if not levels else deep([value], levels - 1)


X = np.zeros((5, 2, 3))
STUDY = {
    "a list": lambda known: {},
    "no variants": lambda known: known | {"variants": {}},
    "a list of variants": lambda known: known | {"variants": list(known["variants"])},
    "a path outside": lambda known: known | {"variants": dict.fromkeys(known["variants"], "../../etc")},
    "an absolute path": lambda known: known | {"variants": dict.fromkeys(known["variants"], "/etc")},
    "a number for a path": lambda known: known | {"variants": dict.fromkeys(known["variants"], 3)},
    "a number for a name": lambda known: known | {"name": 3},
    "no title": lambda known: {key: value for key, value in known.items() if key != "title"},
    "an unknown key": lambda known: known | {"more": 1},
    "a list of facts": lambda known: known | {"facts": []},
    "facts that are text": lambda known: known | {"facts": dict.fromkeys(known["facts"], "x")},
    "agents below one": lambda known: known | {"facts": {"a": {"agents": -1}}},
    "an edge beyond": lambda known: known | {"facts": {"a": {"agents": 2, "edges": [[0, 2]]}}},
    "an edge of three": lambda known: known | {"facts": {"a": {"agents": 2, "edges": [[0, 1, 1]]}}},
    "counts that do not fit": lambda known: known | {"facts": {"a": {"classes": ["x"], "counts": [[1, 2]]}}},
    "nested": lambda known: known | {"facts": {"a": {"gap": deep(1)}}},
    "no files": lambda known: known | {"files": {}},
    "files that are marks": lambda known: known | {"files": {"spec.toml": 3}},
    "a mark that is none": lambda known: known | {"files": {"spec.toml": {"bytes": -1, "sha256": "x"}}},
    "another format": lambda known: known | {"format": 3},
    "half a letter": lambda known: known | {"title": "\ud800"},
    "a huge number": lambda known: known | {"facts": {"a": {"agents": 10**30}}},
}
MANIFEST = {
    "no algorithms": lambda known: {key: value for key, value in known.items() if key != "algorithms"},
    "algorithms of one word": lambda known: known | {"algorithms": [["a"]]},
    "other algorithms": lambda known: known | {"algorithms": [["a", "b"]]},
    "a text of seeds": lambda known: known | {"seeds": "012"},
    "other seeds": lambda known: known | {"seeds": [7, 8, 9, 10, 11]},
    "no seeds": lambda known: known | {"seeds": []},
    "seeds that are true": lambda known: known | {"seeds": [True] * 5},
    "a list of versions": lambda known: known | {"versions": ["1"]},
    "a machine of lists": lambda known: known | {"machine": {"cpu": []}},
    "seconds that are text": lambda known: known | {"seconds": {"a": "long"}},
    "an older format": lambda known: known | {"format": 1},
    "no marks": lambda known: known | {"files": {}},
}
RUNS = {
    "no table": lambda data: b"PAR1 garbage PAR1",
    "no rows": table(lambda frame: frame.head(0)),
    "no columns": table(lambda frame: pl.DataFrame()),
    "one row": table(lambda frame: frame.head(1)),
    "no round": table(lambda frame: frame.drop("round")),
    "no queries": table(lambda frame: frame.drop("queries")),
    "rounds of text": table(lambda frame: frame.with_columns(pl.col("round").cast(pl.String))),
    "rounds before the first": table(lambda frame: frame.with_columns(-pl.col("round"))),
    "nulls for seeds": table(lambda frame: frame.with_columns(pl.lit(None, pl.Int64).alias("seed"))),
    "another status": table(lambda frame: frame.with_columns(status=pl.lit("fine"))),
    "a loss of text": table(lambda frame: frame.with_columns(loss=pl.lit("low"))),
    "a loss of whole numbers": table(lambda frame: frame.with_columns(loss=pl.lit(1))),
    "a loss beyond all bounds": table(lambda frame: frame.with_columns(loss=pl.lit(1e308))),
    "lists": table(lambda frame: frame.with_columns(more=pl.lit([1, 2]))),
    "more text": table(lambda frame: frame.with_columns(seconds_of=pl.lit("x"))),
    "infinite bytes": table(lambda frame: frame.with_columns(bytes_sent=pl.lit(float("inf")))),
}
ARRAYS = {
    "no arrays": lambda data: b"PK garbage",
    "others": lambda data: packed({"weights": X}),
    "none": lambda data: packed({}),
    "one more": lambda data: packed({f"iterates/{i}": X for i in range(50)}),
    "another shape": lambda data: packed({"iterates/0": X[0]}),
    "whole numbers": lambda data: packed({"iterates/0": X.astype(int)}),
}
TUNING = {
    "no table": lambda data: data[:-8],
    "no columns": table(lambda frame: pl.DataFrame()),
    "no eta": table(lambda frame: frame.drop("eta")),
    "another variant": table(lambda frame: frame.with_columns(variant=pl.lit("z"))),
    "chosen by number": table(lambda frame: frame.with_columns(chosen=pl.lit(1))),
    "diverged by half": table(lambda frame: frame.with_columns(diverged=pl.lit(0.5))),
    "values of text": table(lambda frame: frame.with_columns(value=pl.lit("x"))),
}
FORGED = {
    f"{file}: {what}": (file, change)
    for file, changes in {
        "study.json": STUDY,
        "manifest.json": MANIFEST,
        "result.parquet": RUNS,
        "arrays.npz": ARRAYS,
        "tuning.parquet": TUNING,
    }.items()
    for what, change in changes.items()
}


@pytest.mark.parametrize("what", FORGED)
def test_what_is_forged_with_right_checksums_is_refused_by_what_it_holds(run, what):
    file, change = FORGED[what]
    place = next(path for path in files(run) if path.name == file)
    forge(run, os.path.relpath(place, run), change)
    with pytest.raises(gs.InputError, match=r"is damaged|another version") as caught:
        Study.load(run)
    assert "does not match its checksum" not in str(caught.value) or "files" in what or "marks" in what
    assert "\n" not in str(caught.value)


def test_a_forged_file_that_is_right_is_read(run):
    """So that the refusals above are not for a checksum that the forger got wrong."""
    for path in files(run):
        forge(run, os.path.relpath(path, run), lambda same: same)
    Study.load(run)


def test_variants_cannot_change_places(tmp_path):
    made_up(("a", "b")).save(tmp_path)
    (tmp_path / "00-a").rename(tmp_path / "x")
    (tmp_path / "01-b").rename(tmp_path / "00-a")
    (tmp_path / "x").rename(tmp_path / "01-b")
    with pytest.raises(gs.InputError, match=r"manifest.json (does not match its checksum|has .* bytes)"):
        Study.load(tmp_path)


@pytest.mark.parametrize("command", ["report", "plot"])
def test_a_damaged_directory_ends_the_commands_with_2(run, command, monkeypatch, capsys):
    data = (run / "study.json").read_bytes()
    (run / "study.json").write_bytes(data.replace(b"A title", b"B title"))
    monkeypatch.setattr(sys, "argv", ["gossamer", command, str(run)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "is damaged (study.json does not match its checksum)" in capsys.readouterr().err.replace("\n", "")
    assert {path.name for path in run.iterdir()} & {"report.html", "figures", "tables"} == set()


def test_records_stay_json_that_anyone_can_read(whole):
    known = json.loads((whole / "study.json").read_text(encoding="utf-8"))
    assert (known["format"], known["title"]) == (2, "A title")
    assert all(len(one["sha256"]) == 64 for one in known["files"].values())
