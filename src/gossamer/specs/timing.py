"""The `[clock]` of a spec: its tables, its files, and the clock that it describes."""

import os
from pathlib import Path
from typing import Any

from gossamer.clocks import COMPUTE, LINKS, Clock, clock
from gossamer.engines.simulator import timed_by
from gossamer.networks import Network
from gossamer.specs.making import made, placed
from gossamer.specs.sections import ClockSection

MADE = {"links": LINKS, "compute": COMPUTE}
"""What `[clock]` may hold tables for, and by what each is made."""


def timed(section: ClockSection | None, network: Network) -> tuple[Clock | None, Network]:
    """The clock, if the spec has one, and the network, which may go by it."""
    if section is None:
        return timed_by(None, network)
    given = section.model_dump()
    for key, registry in MADE.items():
        if isinstance(given[key], dict):
            given[key] = made(f"[clock] {key}:", "kind", registry, given[key])
    with placed("[clock]"):
        return timed_by(clock(**given), network)


def located(given: ClockSection | dict[str, Any] | None, folder: Path) -> dict[str, Any]:
    """The clock of a spec or a variant with the paths of its files absolute, under its key."""
    if not given:  # none, or a variant that changes nothing of it
        return {}
    tables = given if isinstance(given, dict) else given.model_dump(exclude_unset=True)
    found = {
        key: table | {"file": os.path.realpath(folder / table["file"])}
        for key, table in tables.items()
        if key in MADE and isinstance(table, dict) and isinstance(table.get("file"), str)
    }
    return {"clock": tables | found if isinstance(given, dict) else given.model_copy(update=found)}
