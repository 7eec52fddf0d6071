"""Claims and verdicts: a claim finds something in a study, and the finding makes the verdict."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from gossamer.study import Study

Word = Literal["holds", "does not hold", "undecided"]


class Insufficient(Exception):
    """The runs do not suffice for a verdict; the message says why."""


class Finding(NamedTuple):
    """What a claim found in a study."""

    measured: str
    interval: tuple[float, float] | None
    verdict: Word


@dataclass(frozen=True)
class Verdict:
    """What became of one claim."""

    experiment: str
    claim: str
    """What was judged, with its margin."""
    paper: str
    """What the paper says, in our words."""
    measured: str
    """One line with the numbers, or the reason why there is no verdict."""
    interval: tuple[float, float] | None
    """Of the number that decides; where a claim makes several comparisons, of the one that decides it, so widened that
    all hold together at 95 %."""
    verdict: Word

    def asdict(self) -> dict[str, Any]:
        """The verdict as JSON can write it."""
        finite = self.interval is not None and all(math.isfinite(end) for end in self.interval)
        interval = [float(end) for end in self.interval] if self.interval is not None and finite else None
        return {**vars(self), "interval": interval}


@dataclass(frozen=True)
class Claim:
    """A function from a study to a verdict. It never raises for want of runs: the verdict is then "undecided"."""

    experiment: str
    """The study that it needs."""
    claim: str
    paper: str
    find: Callable[[Study], Finding]

    def __call__(self, study: Study) -> Verdict:
        try:
            found = self.find(study)
        except Insufficient as reason:
            found = Finding(str(reason), None, "undecided")
        return Verdict(self.experiment, self.claim, self.paper, *found)
