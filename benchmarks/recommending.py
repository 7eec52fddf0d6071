"""How often `recommend` is right where the answer is known: python -m benchmarks.recommending [--seeds 20]

Four agents with one quadratic, noisy gradients, and two methods of our own beside D-PSGD. One adds a constant to every
gradient, so that it settles away from the optimum, at an excess of the loss in closed form, three times what matters:
D-PSGD must be first, and the other worse. One takes its gradient from another sample, so that both have the same law:
they must tie. Each of the two questions is asked with other samples so many times; at least 19 of 20 must be right.
"""

import argparse
import sys
from typing import Any

import gossamer as gs
from gossamer.core import Agent, Array, State, StepSize, rule

CURVES, START, MATTERS = (2.0, 0.5), (3.0, 3.0), 0.01
NEEDED = 19 / 20

EXCESS = 3 * MATTERS * sum(curve * x**2 for curve, x in zip(CURVES, START, strict=True)) / 2
"""What the loss of the method with a constant error exceeds the least one by: that is 0."""

SHIFT = (2 * EXCESS / sum(1 / curve for curve in CURVES)) ** 0.5
"""The error c of each coordinate: it settles where A x = −c, at ½ cᵀ A⁻¹ c."""


@rule("shifted-sgd")
class ShiftedSGD:
    """D-PSGD whose gradients are all wrong by a constant."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x)

    def step(self, s: State, agent: Agent) -> State:
        return State(x=agent.gossip(s.x) - self.eta * (agent.gradient(s.x) + SHIFT))


@rule("twin-sgd")
class TwinSGD:
    """D-PSGD by its second sample of a round."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x)

    def step(self, s: State, agent: Agent) -> State:
        agent.gradient(s.x)
        return State(x=agent.gossip(s.x) - self.eta * agent.gradient(s.x))


SPEC: dict[str, Any] = {
    "problem": {
        "name": "quadratic",
        "A": [[CURVES[0], 0.0], [0.0, CURVES[1]]],
        "b": [[0.0, 0.0]] * 4,
        "start": list(START),
    },
    "network": {"name": "ring"},
    "oracle": {"stages": [{"kind": "additive-bias", "std": 0.5, "redraw": True}]},
    "run": {"steps": 100, "dtype": "float64"},
    "algorithm": [{"name": "d-psgd", "eta": 0.1}],
}


def asked(other: str, seed: int) -> gs.Recommendation:
    """D-PSGD or the other, in 6,400 bytes: 200 rounds."""
    methods = ["d-psgd", other]
    return gs.recommend(
        SPEC, bytes=6_400, methods=methods, graphs=["ring"], matters=MATTERS, settings=8, seed=seed, progress=False
    )


def found_winner(seed: int) -> bool:
    """Whether D-PSGD is first, and the method that is wrong by a constant worse."""
    answer = asked("shifted-sgd", seed)
    verdicts = {row["method"]: row["verdict"] for row in answer.ranking}
    return answer.ranking[0]["method"] == "d-psgd" and verdicts.get("shifted-sgd", "worse") == "worse"


def found_tie(seed: int) -> bool:
    """Whether no difference that matters is found between the two that have the same law."""
    answer = asked("twin-sgd", seed)
    return {"d-psgd on ring", "twin-sgd on ring"} <= {*answer.ties}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="how often each question is asked")
    count = parser.parse_args().seeds
    for kind in (ShiftedSGD, TwinSGD):
        gs.algorithms.register(kind)
    enough = True
    for name, right in (("the known winner is found", found_winner), ("two equal methods tie", found_tie)):
        hits = sum(right(seed) for seed in range(count))
        met = hits >= NEEDED * count
        enough = enough and met
        print(f"{name}: {hits} of {count} ({'met' if met else 'missed'}: at least 19 of 20)", flush=True)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
