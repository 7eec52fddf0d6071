"""The record of an elastic run: which generation there is, and who belongs to it."""

import itertools
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class Member:
    """A process: its name, its door, its place among the agents, and whether it has a model to go on from."""

    name: str
    door: tuple[str, int]
    place: int
    veteran: bool
    busy: bool = False
    """Whether it is in the middle of work in which one that joins could not take part, such as a checkpoint."""


@dataclass(frozen=True)
class Record:
    """What stands in the store."""

    generation: int
    closed: bool
    """Whether its members are written down; until then it gathers."""
    expected: tuple[Member, ...] = ()
    """Who must come or be dead, while this generation gathers."""
    came: tuple[Member, ...] = ()
    """Who has come; once it is closed, the members in the order of their ranks."""

    @classmethod
    def read(cls, text: bytes) -> "Record":
        """What was written."""
        kept = json.loads(text)
        expected, came = (
            tuple(Member(**member | {"door": tuple(member["door"])}) for member in kept[key])
            for key in ("expected", "came")
        )
        return cls(kept["generation"], kept["closed"], expected, came)

    def written(self) -> str:
        """As text, the same for the same record."""
        return json.dumps(asdict(self), sort_keys=True)

    def has(self, name: str) -> bool:
        """Whether this process has come to it."""
        return name in {member.name for member in self.came}


def placed(came: Iterable[Member]) -> tuple[Member, ...]:
    """The members by place. One that joins gets the place that it wants, or else the first that is free."""
    taken, found = set[int](), list[Member]()
    for member in sorted(came, key=lambda member: (not member.veteran, member.place, member.name)):
        free = next(place for place in itertools.count() if place not in taken)
        place = free if member.place in taken else member.place
        taken.add(place)
        found.append(replace(member, place=place))
    return tuple(sorted(found, key=lambda member: member.place))
