"""The files that a spec's table of a network names: where they are, and what is in them."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.data.files import existing_file


def files_of(given: Mapping[str, Any]) -> list[str]:
    """The files that a spec's table names, those of the networks of a sequence included."""
    own = [given["file"]] if isinstance(given.get("file"), str) else []
    return own + [file for table in _inner(given) for file in files_of(table)]


def located(given: Mapping[str, Any], folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The same table with the paths of its files absolute; relative ones start at `folder`."""
    table = dict(given)
    if isinstance(table.get("file"), str):
        table["file"] = os.path.realpath(Path(folder) / Path(table["file"]).expanduser())
    if isinstance(table.get("of"), list):
        table["of"] = [located(inner, folder) if isinstance(inner, Mapping) else inner for inner in table["of"]]
    return table


def digests_of(given: Mapping[str, Any]) -> list[str]:
    """The SHA-256 of each file that a spec's table names, as hex digits: what is in a file belongs to a run."""
    return [hashlib.sha256(existing_file(file).read_bytes()).hexdigest() for file in files_of(given)]


def _inner(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tables = given.get("of")
    return [table for table in tables if isinstance(table, Mapping)] if isinstance(tables, list) else []
