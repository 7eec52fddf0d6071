r"""Claims and verdicts: a claim asks a question of a study, and the answer makes the verdict.

A claim is a region that a number should lie in: a ratio of errors above 2, a slope within ±0.05. The measurement gives
an interval for that number (Student's t over replicates, paired where two methods share them). The claim *holds* if the
interval lies inside the region and *does not hold* if it lies outside. A claim that something is smaller, or larger,
names the smallest difference that matters; where the whole interval is below that, it is a *tie*. Anything else is
*undecided*, also where runs diverged or floors have not settled. What was not run is *not run*, and a claim whose test
raised an error is *not tested*.

A page of $k$ claims takes each at $1 - 0.05/k$, and a claim that makes $m$ comparisons takes each at $1 - 0.05/(km)$
(Bonferroni), so that all intervals of the page hold together at 95 %. `gossamer.results.statistics` defines replicates,
ends and floors.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from gossamer.basics.html import panel, tag
from gossamer.basics.table import Table
from gossamer.basics.text import json_ready, plural, short
from gossamer.core import InputError, call_own
from gossamer.results.statistics import interval
from gossamer.results.study import Study

Word = Literal["holds", "does not hold", "tie", "undecided", "not run", "not tested"]
WORDS: tuple[Word, ...] = get_args(Word)
"""Everything that a verdict can say."""

WORST_FIRST: tuple[Word, ...] = ("does not hold", "undecided", "tie", "holds")
"""The answers of comparisons. Where all of several should hold, the worst of them is the claim's."""

ERROR = 0.05
"""The largest probability that a page of claims has one that is judged wrongly."""

OURS = "Ours"
"""The section of a claim that the paper does not make."""


class Unanswered(Exception):
    """There is no answer, and the message says why."""

    word: Word


class Insufficient(Unanswered):
    """There are runs, but they do not suffice."""

    word = "undecided"


class NotRun(Unanswered):
    """The runs that the claim needs are not there."""

    word = "not run"


class Question(NamedTuple):
    """A question: do the means of some numbers lie in a region?"""

    quantity: str  # the name of the numbers, for the text
    parts: Mapping[str, np.ndarray]
    """By name, a value for each replicate. Each part takes an equal share of the claim's error (Bonferroni)."""
    above: float = -math.inf
    below: float = math.inf
    tie: tuple[float, float] | None = None  # the region in which a difference is too small to matter
    ratio: bool = False  # True if the values are logarithms of what the regions are about
    note: str = ""
    wider: float = 0.0
    """A width that is added to both ends of every interval, for readings that are known to the step of a grid only."""
    doubted: Mapping[str, Sequence[Word]] = {}
    """Answers that cannot be trusted, by part: where a run never arrived, its rounds are only known to be many."""
    exact: bool = False
    """True if the values have no uncertainty, as those of an identity."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, with its evidence."""

    experiment: str
    claim: str  # the region that was judged, with its margin
    section: str  # the place in the paper, or that the claim is ours
    paper: str  # the paper's sentence, in our words
    why: str  # the reason why the claim could fail
    measured: str  # A line with the numbers, or the reason why there is no verdict
    interval: tuple[float, float] | None
    """The interval of the number that decides; of several comparisons, that of the one that decides the claim."""
    level: float | None
    """The level of that interval: so high that all intervals of the page hold together at 95 %; None of an identity."""
    verdict: Word
    short: str = ""  # the claim in a few words, for a picture
    evidence: dict[str, Any] | None = None
    """Content of its picture, as JSON can write it: the `quantity`, its `parts` (each with `name`, `value`, `low`,
    `high`, `verdict` and whether it `decides`), the `region` of the claim and that of a `tie` (each [low, high], None
    where it is open), and whether the axis is logarithmic (`ratio`)."""
    reading: str = ""
    """The source of the numbers: "as published", "tuned alike" or "with our numbers"; "exactly" where none is run."""
    setting: str = ""
    """"theirs" where the runs follow the authors' setting; else "in the spirit of" it."""
    differs: tuple[str, ...] = ()
    """The parts of the authors' setting that could not be followed."""

    def __repr__(self) -> str:
        return f"Verdict({self.experiment}, {short(self.claim)}: {self.verdict})"

    def asdict(self) -> dict[str, Any]:
        """Return the verdict as JSON can write it."""
        finite = self.interval is not None and all(math.isfinite(end) for end in self.interval)
        bounds = [float(end) for end in self.interval] if self.interval is not None and finite else None
        return {**vars(self), "interval": bounds, "differs": list(self.differs)}


class Verdicts(list[Verdict]):
    """Several verdicts, in the order of the claims. A notebook shows them as a table."""

    def __repr__(self) -> str:
        words = [verdict.verdict for verdict in self]
        told = ", ".join(f"{words.count(word)} {word}" for word in WORDS if word in words)
        return f"Verdicts({plural(len(self), 'claim')}: {told or 'none'})"

    def _repr_html_(self) -> str:
        head = ["experiment", "claim", "measured", "verdict"]
        rows = [[v.experiment, v.claim, v.measured, tag("b", v.verdict)] for v in self]
        return panel(repr(self), Table(head, rows).html())


@dataclass(frozen=True)
class Claim:
    """A question to a study. Where runs are missing it raises nothing, and the verdict says what is missing."""

    experiment: str  # the study that it needs
    claim: str
    section: str
    paper: str
    why: str
    ask: Callable[[Study], Question]
    short: str = ""

    @property
    def brief(self) -> str:
        """The claim in a few words: `short`, or what stands before its first colon or parenthesis."""
        return self.short or self.claim.partition(":")[0].partition(" (")[0]

    def __call__(self, study: Study | None, error: float = ERROR) -> Verdict:
        """Return the verdict, judged wrongly with at most this probability."""

        def judge() -> Verdict:
            try:
                if study is None:
                    raise NotRun("the experiment was not run")
                return self._judge(self.ask(study), error)
            except Unanswered as reason:
                return Verdict(*self._stated, str(reason), None, None, reason.word, self.brief)

        try:
            return call_own("its test", judge)
        except InputError as reason:
            return Verdict(*self._stated, str(reason), None, None, "not tested", self.brief)

    @property
    def _stated(self) -> tuple[str, str, str, str, str]:
        return self.experiment, self.claim, self.section, self.paper, self.why

    def _judge(self, question: Question, error: float) -> Verdict:
        # Bonferroni over the comparisons of the claim
        level, undo = 1 - error / len(question.parts), _exp if question.ratio else float
        above, below, tie = question.above, question.below, question.tie
        if question.ratio:
            above, below = _log(above), _log(below)
            tie = None if tie is None else (_log(tie[0]), _log(tie[1]))
        parts: list[dict[str, Any]] = []
        margins, texts = [], []
        for name, values in question.parts.items():
            mean, half = (float(values.mean()), 0.0) if question.exact else interval(values, level)
            low, high = mean - half - question.wider, mean + half + question.wider
            answer = _compare(low, high, above, below, tie)
            answer = "undecided" if answer in question.doubted.get(name, ()) else answer
            parts.append({"name": name, "value": undo(mean), "low": undo(low), "high": undo(high), "verdict": answer})
            margins.append(min(low - above, below - high))
            texts.append("{} {value:.4g} [{low:.4g}, {high:.4g}]".format(name, **parts[-1]).strip())
        answers: list[Word] = [part["verdict"] for part in parts]
        word: Word = next(word for word in WORST_FIRST if word in answers)
        decides = min((k for k, answer in enumerate(answers) if answer == word), key=margins.__getitem__)
        counts = sorted({len(values) for values in question.parts.values()})
        each = " each" if len(parts) > 1 else ""
        of = f"{100 * level:.4g} %{each}, {' to '.join(str(n) for n in counts)} replicates"
        of = "computed exactly, without runs" if question.exact else of
        measured = f"{question.quantity}: {', '.join(texts)} ({of})" + (question.note and f"; {question.note}")
        evidence = {
            "quantity": question.quantity,
            "parts": [part | {"decides": k == decides} for k, part in enumerate(parts)],
            "region": [float(question.above), float(question.below)],
            "tie": None if question.tie is None else [float(end) for end in question.tie],
            "ratio": question.ratio,
        }
        deciding = parts[decides]["low"], parts[decides]["high"]
        stated = None if question.exact else level
        return Verdict(*self._stated, measured, deciding, stated, word, self.brief, json_ready(evidence))


def _compare(low: float, high: float, above: float, below: float, tie: tuple[float, float] | None) -> Word:
    """Return the answer of one comparison: an interval outside the region refutes the claim, unless it is a tie."""
    if above < low and high < below:
        return "holds"
    if tie is not None and tie[0] <= low and high <= tie[1]:
        return "tie"
    return "does not hold" if high <= above or below <= low else "undecided"


def _log(value: float) -> float:
    return math.log(value) if 0 < value < math.inf else value


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf  # math.exp raises where floats end
