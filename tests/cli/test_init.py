"""Specs to start from: they are whole, they are found in a clone and in a package, and nothing is overwritten."""

import shutil
import tomllib
from pathlib import Path

import pytest

from gossamer.cli.init import TEMPLATES, Start, about, copy_spec, examples, find_example
from gossamer.core import InputError
from gossamer.problems import PROBLEMS
from gossamer.results import provenance
from gossamer.specs.spec import Spec

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["logistic", "neural", "quadratic"])
def test_every_problem_has_a_commented_spec_that_builds(name):
    path = TEMPLATES / f"{name}.toml"
    spec = Spec.read(path)
    assert spec.problem["name"] == name
    parts = spec.parts()
    assert parts.candidates[0].name == "biased-dmt"
    text = path.read_text(encoding="utf-8")
    keys = [line for line in text.splitlines() if " = " in line and not line.startswith(("#", " "))]
    assert sum("#" in line for line in keys) >= len(keys) / 2
    assert max(len(line) for line in text.splitlines()) <= 125


def test_the_choices_of_the_command_line_are_the_specs_that_there_are():
    assert set(Start.__args__) == {path.stem for path in TEMPLATES.iterdir()} <= set(PROBLEMS)


def test_what_the_logistic_spec_leaves_as_a_comment_builds_too():
    """Without its numbers, and with the [tuning] and the [[variant]] that it shows."""
    text = (TEMPLATES / "logistic.toml").read_text(encoding="utf-8")
    body, _, more = text.partition("# To let Gossamer choose")
    kept = [line for line in body.splitlines() if not line.startswith(("eta", "lam"))]
    shown = [
        line.removeprefix("# ") for line in more.splitlines() if line.startswith(("# [", "# eta", "# name", "# net"))
    ]
    spec = Spec.of(tomllib.loads("\n".join(kept + shown)))
    assert list(spec.variants()) == ["complete graph"]
    assert all(candidate.open for candidate in spec.each(Spec.parts)["complete graph"].candidates)


def test_the_examples_of_a_clone_are_those_of_the_repository():
    found = examples()
    assert set(found) == {
        path.stem if path.suffix == ".toml" else path.name
        for path in (ROOT / "examples").iterdir()
        if path.suffix in (".toml", ".py")
    }
    assert all(about(path) for path in found.values())


def test_the_wheel_holds_the_examples_where_a_package_looks_for_them(tmp_path, monkeypatch):
    """The mapping of the build is applied by hand to a package's directory, and found there."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    (source, target), *more = build["wheel"]["force-include"].items()
    assert not more
    assert not (ROOT / "src" / target).exists()  # nothing twice
    package = tmp_path / "site-packages" / "gossamer"
    shutil.copytree(ROOT / source, tmp_path / "site-packages" / target)
    monkeypatch.setattr("gossamer.cli.init.PACKAGE", package)
    assert examples()["own-data"] == package / "examples" / "own-data.toml"
    written = copy_spec(examples()["own-data"], tmp_path / "mine" / "a.toml")
    assert written == [tmp_path / "mine" / name for name in ("a.toml", "sites.csv", "towns.edges")]
    assert Spec.read(written[0]).parts().problem.agents == 4
    shutil.rmtree(package / "examples")
    with pytest.raises(InputError, match=r"the examples are not at .*: this installation left them out"):
        examples()


def test_examples_inside_a_package_do_not_change_its_digests(tmp_path):
    folder = tmp_path / "gossamer"
    shutil.copytree(ROOT / "src" / "gossamer" / "core", folder / "core")
    alone = provenance.digest_rooms(folder)
    shutil.copytree(ROOT / "examples", folder / "examples")
    assert provenance.digest_rooms(folder) == alone
    (folder / "core" / "new.py").write_text("")
    assert provenance.digest_rooms(folder) != alone


def test_nothing_is_overwritten_unless_it_is_forced(tmp_path):
    source = examples()["own-data"]
    (tmp_path / "sites.csv").write_text("mine")
    with pytest.raises(InputError, match=r"sites\.csv' exists: choose another name, or overwrite it with --force"):
        copy_spec(source, tmp_path / "new.toml")
    assert not (tmp_path / "new.toml").exists()
    copy_spec(source, tmp_path / "new.toml", force=True)
    assert (tmp_path / "sites.csv").read_bytes() == (ROOT / "examples" / "sites.csv").read_bytes()
    with pytest.raises(InputError, match="is a directory: name the file to write"):
        copy_spec(source, tmp_path, force=True)
    with pytest.raises(OSError, match=r"new\.toml"):
        copy_spec(source, tmp_path / "new.toml" / "below.toml")


def test_unknown_names_are_said():
    with pytest.raises(InputError, match="there is no example 'own-dat'; did you mean 'own-data'"):
        find_example("own-dat")
