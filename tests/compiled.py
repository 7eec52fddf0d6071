"""The programs of the simulator that this process has compiled."""

from typing import Any

from gossamer.engines import program

PROGRAMS: tuple[Any, ...] = (program.begin, program.advance)


def counted() -> list[int]:
    """How many there are of each kind."""
    return [jitted._cache_size() for jitted in PROGRAMS]


def forgotten() -> None:
    """Compile all anew from here on."""
    for jitted in PROGRAMS:
        jitted.clear_cache()
