"""Say why a tag cannot be released: another version, an unwritten change, or an address that is still a placeholder.

python tests/releasable.py v1.2.3
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDER = "OWNER"
"""The owner of the repository in its addresses, until there is one. pyproject.toml and CITATION.cff hold them."""


def reasons(tag: str, root: Path = ROOT) -> list[str]:
    """Return what stands in the way of a release by this tag."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = (root / "CITATION.cff").read_text(encoding="utf-8")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    version, found = project["version"], []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, but pyproject.toml has version {version}: tag v{version}.")
    if f"\nversion: {version}\n" not in cited:
        found.append(f"CITATION.cff has another version than {version}.")
    if not re.search(rf"^## \[?{re.escape(version)}\b", changes, re.MULTILINE):
        found.append(f"CHANGELOG.md has no section {version}: rename its section of unreleased changes.")
    if PLACEHOLDER in project["urls"]["Repository"]:
        found.append(f"{PLACEHOLDER} in pyproject.toml and CITATION.cff stands for the repository's owner: replace it.")
    return found


if __name__ == "__main__":
    if found := reasons(sys.argv[1]):
        sys.exit("\n".join(found))
