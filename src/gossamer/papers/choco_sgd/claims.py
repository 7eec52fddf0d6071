"""The claims of the CHOCO-SGD paper; margins were set before the first run."""

from dataclasses import dataclass

from gossamer.papers.verdicts import Claim, Insufficient, Question
from gossamer.papers.vocabulary import Cost, End, Ratio, Runs, average, log_ratio
from gossamer.results.study import Study

TARGET = 0.45
"""The loss to which rounds and bytes are counted."""

COMPRESSED = ("top-1", "rand-1", "4 bits")


def against_exact(split: str, compressed: str, pays: str, factor: float) -> Ratio:
    """Ask if CHOCO-SGD costs less than `factor` times D-PSGD with exact messages."""
    cost = Cost(TARGET, pays=pays)  # pyright: ignore[reportArgumentType]
    return Ratio(cost, f"choco-sgd @ {split}, {compressed}", [f"d-psgd-atc @ {split}, exact"], below=factor)


@dataclass(frozen=True)
class Straight:
    """Ask if the disagreement falls from the second mark to the third in as many rounds as from the first to that."""

    method: str
    marks: tuple[float, float, float] = (1e-1, 1e-4, 1e-7)
    within: float = 1.5

    @property
    def methods(self) -> list[str]:
        return [self.method]

    def __call__(self, study: Study) -> Question:
        runs = Runs.of(study, self.method)
        if runs.never_arrives(self.marks[-1], "consensus"):
            raise Insufficient(f"{self.method} does not reach {self.marks[-1]:g} in every replicate")
        first, middle, last = (runs.arrivals(mark, metric="consensus") for mark in self.marks)
        early = {replicate: middle[replicate] - first[replicate] for replicate in first}
        late = {replicate: last[replicate] - middle[replicate] for replicate in first}
        note = f"{average(early):.4g} rounds from {self.marks[0]:g} to {self.marks[1]:g}, then {average(late):.4g}"
        return Question(
            f"ratio of the rounds from {self.marks[1]:g} to {self.marks[2]:g} to those before",
            {"": log_ratio(late, early)},
            above=1 / self.within,
            below=self.within,
            ratio=True,
            note=note,
        )


GOSSIP = ("top 1 %", "rand 1 %", "8 bits")

CLAIMS = [
    *(
        Claim(
            "gossip",
            f"CHOCO-gossip with {compressed} converges linearly: from a disagreement of 1e-4 to 1e-7 it takes as many "
            "rounds as from 1e-1 to 1e-4, within a factor of 1.5",
            "Average consensus",
            "CHOCO-gossip converges linearly, whatever the compression.",
            "Errors of compression may slow it down once agents are close.",
            Straight(f"choco-sgd @ {compressed}"),
            f"CHOCO-gossip with {compressed} converges linearly",
        )
        for compressed in GOSSIP
    ),
    *(
        Claim(
            "gossip",
            f"Directly compressed gossip with {compressed} stalls: CHOCO-gossip ends at less than a hundredth of its "
            "disagreement, γ tuned for that",
            "Average consensus",
            "Gossip of directly compressed vectors does not converge.",
            "With a small γ its errors may be small, too.",
            Ratio(End("consensus"), f"choco-sgd @ {compressed}", [f"direct-dsgd @ {compressed}"], below=0.01),
            f"Directly compressed gossip with {compressed} stalls",
        )
        for compressed in GOSSIP
    ),
    *(
        Claim(
            "rounds",
            f"With {compressed} and {split} data CHOCO-SGD needs less than 1.5 times the rounds of exact D-PSGD",
            "Logistic regression",
            "CHOCO-SGD has the rate of D-PSGD with exact messages.",
            "On sorted data the consensus is slow, and compression slows it down further.",
            against_exact(split, compressed, "round", 1.5),
        )
        for split in ("sorted", "shuffled")
        for compressed in COMPRESSED
    ),
    Claim(
        "rounds",
        "With top-1 and shuffled data it sends less than a fiftieth of the bytes",
        "Logistic regression",
        "Sending 1 % of the coordinates saves a factor of about 100 in bits.",
        "More rounds may eat up what each saves.",
        against_exact("shuffled", "top-1", "bytes_sent", 1 / 50),
    ),
    Claim(
        "rounds",
        "With top-1 and sorted data it sends less than a fiftieth of the bytes",
        "Logistic regression",
        "Sending 1 % of the coordinates saves a factor of about 100 in bits.",
        "On sorted data more rounds may eat up what each saves.",
        against_exact("sorted", "top-1", "bytes_sent", 1 / 50),
    ),
]
