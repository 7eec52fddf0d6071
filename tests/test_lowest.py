"""Lower bounds are those that `make lowest` installed, and the versions of `make install` are within all bounds."""

from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.lowest import INSTALLED, ROOT, bounds
from tests.table import table

BOUNDS = bounds()


def pinned(file: Path) -> dict[str, list[Version]]:
    """Return the versions of each package: constraints.txt has two where the newest needs another Python."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if "==" in line and line[0] != "#"]
    versions: dict[str, list[Version]] = {}
    for line in map(Requirement, lines):
        versions.setdefault(canonicalize_name(line.name), []).append(Version(str(line.specifier)[2:]))
    return versions


@table("name", BOUNDS)
def test_a_lower_bound_is_a_version_that_was_tried(name):
    """Another bound than in lowest.txt was not: run `make lowest`, which writes that file if all passes."""
    assert pinned(INSTALLED)[canonicalize_name(name)] == [Version(BOUNDS[name].lowest)]


@table("name", BOUNDS)
def test_what_is_installed_for_development_is_allowed(name):
    lowest, below = BOUNDS[name]
    versions = pinned(ROOT / "constraints.txt")[canonicalize_name(name)]
    assert all(Version(lowest) <= version < Version(below) for version in versions)
