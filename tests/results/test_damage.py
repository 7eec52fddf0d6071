"""Damaged and foreign directories: said, never believed, never a traceback."""

import json
import os
import shutil
import sys

import polars as pl
import pytest

import gossamer as gs
from gossamer.cli import main
from gossamer.results.study import Study
from tests.papers.made_up_studies import fig1, fig2

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
            "stage": [0, 1] * len(variants),
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


def test_variants_cannot_change_places(tmp_path):
    made_up(("a", "b")).save(tmp_path)
    (tmp_path / "00-a").rename(tmp_path / "x")
    (tmp_path / "01-b").rename(tmp_path / "00-a")
    (tmp_path / "x").rename(tmp_path / "01-b")
    with pytest.raises(gs.InputError, match=r"manifest.json does not match its checksum"):
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
    assert (known["format"], known["title"]) == (3, "A title")
    assert all(len(one["sha256"]) == 64 for one in known["files"].values())
