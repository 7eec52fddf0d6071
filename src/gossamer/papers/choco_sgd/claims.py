"""The claims of the CHOCO-SGD paper; margins were set before the first run."""

from gossamer.papers.verdicts import Claim
from gossamer.papers.vocabulary import Cost, Ratio

TARGET = 0.45
"""The loss to which rounds and bytes are counted."""

COMPRESSED = ("top-1", "rand-1", "4 bits")


def against_exact(split: str, compressed: str, pays: str, factor: float) -> Ratio:
    """Ask if CHOCO-SGD costs less than `factor` times D-PSGD with exact messages."""
    cost = Cost(TARGET, pays=pays)  # pyright: ignore[reportArgumentType]
    return Ratio(cost, f"choco-sgd @ {split}, {compressed}", [f"d-psgd-atc @ {split}, exact"], below=factor)


CLAIMS = [
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
