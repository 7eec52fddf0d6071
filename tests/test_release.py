"""What a release needs agrees with itself: addresses, versions, workflows and the files that the wheel carries."""

import re
import runpy
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from tests.releasable import PLACEHOLDER, reasons

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_citation_has_the_version_and_the_address_of_the_project():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == PROJECT["version"] == version("gossamer")
    assert cited["repository-code"] == PROJECT["urls"]["Repository"]
    assert all(url.startswith(cited["repository-code"]) for url in PROJECT["urls"].values())


def test_the_placeholder_of_the_owner_stands_in_two_files_alone():
    texts = {path: path.read_text(encoding="utf-8") for path in ROOT.glob("*.*") if path.is_file()}
    texts |= {path: path.read_text(encoding="utf-8") for path in ROOT.glob("docs/**/*.md")}
    found = {path.name for path, text in texts.items() if f"/{PLACEHOLDER}/" in text}
    assert found == {"pyproject.toml", "CITATION.cff"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_targets_that_exist_and_ask_for_few_rights(path):
    text = path.read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    called = [target for step in steps for target in re.findall(r"make ([\w-]+)", step.get("run", ""))]
    assert set(called) <= set(targets)
    assert all(job["timeout-minutes"] <= 90 for job in jobs.values() if any("run" in step for step in job["steps"]))
    assert "write-all" not in text
    assert not re.search(r"secrets\.|password", text)


def test_the_pythons_that_are_tested_are_those_that_are_stated():
    (tested,) = (path for path in WORKFLOWS if path.stem == "tests")
    matrix = yaml.safe_load(tested.read_text(encoding="utf-8"))["jobs"]["tests"]["strategy"]["matrix"]["python"]
    stated = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert matrix == stated
    assert PROJECT["requires-python"] == f">={matrix[0]}"


def test_a_release_is_refused_with_every_reason(tmp_path):
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    tag = f"v{PROJECT['version']}"
    assert any(PLACEHOLDER in reason for reason in reasons(tag, tmp_path))
    assert any("the tag is v9.9.9" in reason for reason in reasons("v9.9.9", tmp_path))
    for name in ("pyproject.toml", "CITATION.cff"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace(PLACEHOLDER, "someone"), encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(f"## {PROJECT['version']}, 2026\n", encoding="utf-8")
    assert reasons(tag, tmp_path) == []


def test_files_that_are_made_of_the_pages_are_up_to_date():
    for path, make in runpy.run_path(str(ROOT / "docs" / "fill.py"))["WHOLE"].items():
        assert path.read_text(encoding="utf-8") == make(), f"{path.relative_to(ROOT)}: run `make pages`"


def test_the_list_of_pages_for_assistants_names_every_page_of_the_navigation():
    listed = re.findall(r"\]\((\S+)\.html\)", (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8"))
    pages = re.findall(r": (\S+)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(pages)
