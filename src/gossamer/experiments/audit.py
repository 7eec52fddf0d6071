"""Audit an oracle: its constants of Assumption 3, measured at the points of a run.

At some rounds of the first seed's run every agent's next query is repeated many times, at its point and with the
oracle's own memory. The measured constants stand beside those that the oracle states in closed form. A path says
nothing of points that it does not visit.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.basics.progress import Report, reporting
from gossamer.basics.text import plural
from gossamer.core import InputError, setting, whole
from gossamer.engines import program
from gossamer.engines.agents import StackedAgents
from gossamer.engines.block import Block
from gossamer.engines.runs import Width
from gossamer.oracles import COVERED, ErrorBounds, Measured, Oracle, drawn_constants, measure
from gossamer.oracles.measuring import count_of
from gossamer.specs.setup import Setup
from gossamer.specs.spec import Spec

WIDTH = 100


@dataclass(frozen=True)
class Finding:
    """The stated and the measured constants of an oracle, for one algorithm in one variant."""

    variant: str
    algorithm: str
    setting: str
    rounds: list[int]
    """The rounds whose query was repeated."""
    stated: ErrorBounds
    measured: Measured
    diverged: int
    """The round in which the run diverged, or −1."""

    @property
    def covered(self) -> bool | None:
        """True if the theorem covers the stated M_f; None if none is stated."""
        return None if self.stated.relative is None else self.stated.relative <= COVERED

    @property
    def exceeded(self) -> list[str]:
        """The stated bounds that were exceeded by more than chance: a bias by the lower end of its interval."""
        stated, measured, exceeded = self.stated, self.measured, []
        # a constant of 0 is exceeded by rounding errors alone
        rounding = 1e-9 * float(measured.grad_sq.max())
        if stated.relative is not None and stated.absolute is not None:
            least = measured.absolute_interval(stated.relative)[0]
            # a run in float32 rounds what it draws once
            exceeded += ["bias"] if least > stated.absolute * (1 + 1e-6) + rounding else []
        # s² of K queries of one agent and point has a relative deviation of about √(2/K), more for heavy tails
        doubt = 1 + 10 / math.sqrt(measured.queries)
        if stated.variance is not None and measured.variance > doubt * stated.variance + rounding:
            exceeded.append("variance")
        return exceeded

    @property
    def notes(self) -> list[str]:
        """Sentences about the oracle, which hold for every run with it."""
        stated, sentences = self.stated, []
        if self.covered is False:
            sentences.append(f"The stated M_f = {stated.relative:.4g} is above 1/256: the theorem does not cover it.")
        if self.covered is None:
            sentences.append("No M_f is stated in closed form: what was measured holds for this path only.")
        elif stated.absolute is None:
            sentences.append("No σ_f² is stated in closed form: what was measured holds for this path only.")
        return sentences + ([stated.note] if stated.note else [])

    @property
    def words(self) -> list[str]:
        """The meaning of what was measured, in sentences."""
        stated, measured = self.stated, self.measured
        needed, (low, high) = measured.absolute_at(COVERED), measured.absolute_interval(COVERED)
        between = "" if measured.queries == 1 else f" (95 %: {low:.4g} to {high:.4g})"
        sentences = [f"At these rounds Assumption 3 holds with M_f = 1/256 if σ_f² is at least {needed:.4g}{between}."]
        if high == 0:
            sentences = ["At these rounds Assumption 3 holds with M_f ≤ 1/256 and σ_f² = 0."]
        if stated.variance is None:
            sentences.append(
                f"No bound on the variance is stated: along this path it is at most {measured.variance:.4g}."
            )
        for name in self.exceeded:
            sentences.append(f"The stated bound on the {name} is exceeded: the closed form is wrong for this problem.")
        if self.diverged >= 0:
            sentences.append(f"The run diverged in round {self.diverged}; only the rounds before it were measured.")
        return sentences

    @property
    def title(self) -> str:
        return f"{self.variant}: {self.algorithm}" if self.variant else self.algorithm

    def __str__(self) -> str:
        return Audit([self]).__str__()

    def text(self) -> str:
        """Return the finding as text, without the notes."""
        stated = self.stated
        known = {"M_f": stated.relative, "σ_f²": stated.absolute, "σ²": stated.variance}
        shown = ", ".join(f"{name} = {'–' if value is None else f'{value:.4g}'}" for name, value in known.items())
        head = f"{self.title} ({self.setting}), rounds {', '.join(str(t) for t in self.rounds)}"
        return "\n".join([head, f"stated   {shown}", str(self.measured), *list_lines(self.words)])

    def asdict(self) -> dict[str, Any]:
        stated = self.stated
        return {
            "variant": self.variant,
            "algorithm": self.algorithm,
            "setting": self.setting,
            "rounds": self.rounds,
            "stated": {"relative": stated.relative, "absolute": stated.absolute, "variance": stated.variance},
            "measured": self.measured.asdict(),
            "covered": self.covered,
            "exceeded": self.exceeded,
            "diverged": None if self.diverged < 0 else self.diverged,
            "words": [*self.words, *self.notes],
        }


@dataclass(frozen=True)
class Audit:
    """The findings of a spec, in its order. Printed it is text for a terminal."""

    findings: list[Finding]

    def asdict(self) -> dict[str, Any]:
        """Return the findings for a JSON file."""
        return {"findings": [finding.asdict() for finding in self.findings]}

    def __repr__(self) -> str:
        return f"Audit({plural(len(self.findings), 'finding')})"

    def __str__(self) -> str:
        owners: dict[str, list[str]] = {}
        for finding in self.findings:
            for note in finding.notes:
                owners.setdefault(note, []).append(f"{finding.title} ({finding.setting})")
        # below all findings, once
        notes: dict[str, list[str]] = {}
        for note, own in owners.items():
            notes.setdefault("" if len(own) == len(self.findings) else f" of {', '.join(own)}", []).append(note)
        shown = ["\n".join([f"The oracle{own}:", *list_lines(lines)]) for own, lines in notes.items()]
        return "\n\n".join([*(finding.text() for finding in self.findings), *shown])


def list_lines(lines: Sequence[str]) -> list[str]:
    """Return sentences as the lines of a list."""
    return [textwrap.fill(line, WIDTH, initial_indent="- ", subsequent_indent="  ") for line in lines]


def audit(spec: Spec, *, rounds: int = 10, queries: int = 64, seed: int = 0, progress: bool | Report = True) -> Audit:
    """Measure the oracle of a spec along the first seed's run of each of its algorithms, in each of its variants.

    Args:
        spec: an experiment whose hyper-parameters are all given.
        rounds: at how many rounds of the run, the first and the last among them.
        queries: how often each agent's query is repeated there.
        seed: of the repeated queries' draws.
        progress: as in `gossamer.simulate`.
    """
    rounds = whole("rounds", rounds)
    queries = count_of(queries)
    tasks: list[tuple[str, Setup, int]] = []
    for variant, setup in spec.each(Spec.parts).items():
        for number, candidate in enumerate(setup.candidates):
            if candidate.open:
                raise InputError(
                    f"an audit follows one run, but {candidate.name} has no {' and no '.join(candidate.open)}: give "
                    "what [tuning] would choose (`gossamer tune --write` does it)."
                )
            setup.check_memory([candidate.whole], setup.seeds[:1], setup.plans[number], Width(1, 1))
            tasks.append((variant, setup, number))
    with reporting(progress) as report:
        return Audit([_follow(*one, rounds, queries, seed, report) for one in tasks])


def _follow(variant: str, one: Setup, number: int, count: int, queries: int, seed: int, report: Report) -> Finding:
    """Run a candidate on the first seed, and measure the oracle at `count` rounds of the run."""
    rule, plan, seeds = one.candidates[number].whole, one.plans[number], one.seeds[:1]
    length: Any = {"steps": plan.steps, "dtype": plan.dtype, "apart": plan.apart}
    block = Block([rule], one.problem, one.network, [one.oracle], seeds=seeds, **length)
    label = f"{variant}: {rule.name}" if variant else rule.name
    asked, measured, now = [], [], 0
    for t in np.unique(np.linspace(0, plan.steps - 1, min(count, plan.steps)).round().astype(int)).tolist():
        if t > now:
            block.drive([t], lambda done, loss: report(label, done, plan.steps, loss), now, t)
        now, diverged = t, int(block.run.diverged[0, 0])
        if diverged >= 0:
            break
        x, memory = _query(block, t)
        if not np.isfinite(x).all():
            break
        # another seed at each round, so that the errors of the measurements are independent
        at_round = measure(one.oracle, one.problem, x[None], memory=memory, queries=queries, seed=seed + t, round=t)
        asked.append(t)
        measured.append(at_round)
    if not measured:
        raise InputError(
            f"{label} with {setting(rule)} diverged at once, and nothing was measured: take a smaller eta."
        )
    stated = drawn_constants(one.oracle, one.problem, seeds)
    ended = int(block.run.diverged[0, 0])
    return Finding(variant, rule.name, setting(rule), asked, stated, Measured.join(measured), ended)


class Watched(StackedAgents):
    """Agents that record the points of their first query, and the memory of the oracle before it."""

    first: tuple[Array, Any] | None = None

    def _ask(self, oracle: Oracle, points: tuple[Array, ...]) -> Array:
        if self.first is None:
            self.first = points[0], self.memory
        return super()._ask(oracle, points)


def _query(block: Block, t: int) -> tuple[Float[np.ndarray, "agents d"], Any]:
    """Return the points of the first query in round t, and the oracle's memory before it."""
    with block.precision():
        setting = jax.tree.map(lambda leaf: leaf[0], block.settings(t).at(t))
        run = jax.tree.map(lambda leaf: leaf[0, 0], block.run)
        x, memory = _first(block.form, block.world, setting, block.keys[0], run, jnp.int32(t))
        return np.asarray(x, np.float64), jax.tree.map(np.asarray, memory)


@partial(jax.jit, static_argnums=0)
def _first(
    form: program.RuleForm, world: Any, setting: program.SettingAt, keys: Array, run: program.RunState, t: Array
) -> Any:
    agents = Watched(world, setting.oracle, program.round_keys(keys, t + 1), t, run.memory)
    form.bind(setting.hyper).step(run.state, agents)
    return agents.first
