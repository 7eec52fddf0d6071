"""Objects to be run: an algorithm with the numbers that are given (`Candidate`), and all that it runs on (`Setup`)."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.text import join_words, plural
from gossamer.clocks import Clock
from gossamer.core import InputError, Range, Rule, WarmStart, Whole, brief, hyperparameters, is_rule, nearest, parts
from gossamer.engines.block import honest_problem
from gossamer.engines.costs import cost_by_round, key_shapes, trace
from gossamer.engines.runs import RunPlan, Setting, Width, fits
from gossamer.engines.simulator import check
from gossamer.metrics import METRICS, own, select_metrics, targets
from gossamer.metrics.measuring import measure
from gossamer.networks import Network
from gossamer.oracles import Oracle, Site
from gossamer.problems import Problem
from gossamer.results.cache_key import describe_code, digest
from gossamer.results.store import MADE_BY
from gossamer.schedules import Schedule
from gossamer.specs.schema import FIRST_SEED, WIDEST, RunSection, TuningSection, errors_at

Values = dict[str, Any]
"""Hyper-parameters by name."""


@dataclass(frozen=True)
class Candidate:
    """A rule's class and the hyper-parameters that are fixed; tuning may choose the others."""

    kind: Any
    fixed: Values

    @staticmethod
    def of(given: Any) -> "Candidate":
        """Return the candidate of a class or a name, with everything open."""
        kind = ALGORITHMS[given] if isinstance(given, str) and given in ALGORITHMS else given
        if not is_rule(kind):
            if isinstance(given, str):
                raise InputError(f"there is no algorithm {brief(given)}; {nearest(given, ALGORITHMS)}")
            raise InputError(f"{brief(given)} is no algorithm: give a class, such as gs.BiasedDMT, or its name.")
        return Candidate(kind, {})

    @staticmethod
    def of_rule(rule: Any) -> "Candidate":
        """Return the candidate of a rule, with nothing open."""
        return Candidate(
            type(rule), {field: getattr(rule, field) for field in [*hyperparameters(type(rule)), *parts(rule)]}
        )

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def title(self) -> str:
        """The name, and how the tracker starts where that is given: "biased-dmt (warm=20)"."""
        return f"{self.name} ({start})" if (start := self.start) else self.name

    @property
    def start(self) -> str:
        """The start of the tracker, such as "warm=20"; "" where the method's own default holds."""
        starts = [key for key, allowed in hyperparameters(self.kind).items() if isinstance(allowed, WarmStart)]
        warm = {field.name: field.default for field in dataclasses.fields(self.kind) if field.name in starts}
        return ", ".join(f"{key}={self.fixed[key]}" for key in warm if self.fixed.get(key, warm[key]) != warm[key])

    @functools.cached_property
    def open(self) -> dict[str, Range | Whole]:
        """The hyper-parameters that are neither given nor have a default, and the range of each."""
        # a default is the method's own choice, as its paper has it: such a number is not tuned
        defaults = {field.name for field in dataclasses.fields(self.kind) if field.default is not MISSING}
        known = hyperparameters(self.kind)
        return {key: known[key] for key in known if key not in self.fixed and key not in defaults}

    @functools.cached_property
    def step(self) -> str:
        """The name of the step size; "" if it is not open."""
        return next((key for key, allowed in self.open.items() if allowed.step), "")

    def values(self, section: TuningSection) -> dict[str, list[Any]]:
        """Return the values that tuning begins with: the ends of a range, or, of a grid and of whole numbers, all."""
        chosen, is_grid = {}, section.sampler == "grid"
        if is_grid and not self.step:
            raise InputError(
                f'{self.name} leaves no step size open, and sampler = "grid" spans one: leave it out of [[algorithm]], '
                'or take sampler = "design".'
            )
        for key, allowed in self.open.items():
            values = list(section.eta if key == self.step else section.grids.get(key, allowed.grid))
            listed = is_grid or isinstance(allowed, Whole)
            if not values:
                raise InputError(f"{self.name} says nothing of what {key} to try: give {key} = [lowest, highest].")
            if not listed and key not in section.grids:
                values = [min(values), max(values)]
            if not listed and (len(values) != 2 or values[0] >= values[1]):
                raise InputError(
                    f"{key} = {brief(values)} lists values to try, but sampler = {section.sampler!r} takes "
                    f'[lowest, highest]: give these, or take sampler = "grid".'
                )
            chosen[key] = [allowed.check(f"{key} = […]", value) for value in values]
        if is_grid:
            others = {key: values for key, values in chosen.items() if key != self.step}
            combinations = math.prod(map(len, others.values()))
            if section.stages[0] % combinations or section.stages[0] < 2 * combinations:
                first = " of which two thirds are the first grid," if section.refine else ""
                raise InputError(
                    f"budget = {section.budget},{first} must be a multiple of the number of values of "
                    f"{' times that of '.join(others)}, {combinations}, and at least twice it, so that each is tried "
                    f"with two values of {self.step}."
                )
        elif all(isinstance(self.open[key], Whole) for key in chosen):
            raise InputError(
                f"{self.name} leaves only {', '.join(chosen)} open, which are whole numbers: give [[algorithm]] once "
                "for each value to compare."
            )
        elif section.budget < 2 * len(chosen):
            raise InputError(
                f"budget = {section.budget} is too small for the {len(chosen)} numbers that {self.name} leaves open "
                f"({', '.join(chosen)}): give at least {2 * len(chosen)}, or some of the numbers in [[algorithm]]."
            )
        return chosen

    def rule(self, chosen: Mapping[str, Any] | None = None) -> Rule:
        """Return the rule with the chosen hyper-parameters."""
        return self.kind(**self.fixed, **(chosen or {}))

    @functools.cached_property
    def whole(self) -> Rule:
        """The rule of a candidate that leaves nothing open."""
        return self.rule()

    def example(self, section: TuningSection) -> Rule:
        """Return the first rule that tuning may try, once all combinations of the ends have passed a rule's checks.

        The example stands for all where a rule must suit a network and a problem: that does not depend on the numbers.
        """
        missing = [part for part in parts(self.kind) if part not in self.fixed]
        if missing:
            raise InputError(f"{self.name} needs a {missing[0]}, which tuning does not choose: give it, in a spec.")
        values = self.values(section)
        corners = [self.rule(dict(zip(values, corner, strict=True))) for corner in itertools.product(*values.values())]
        return corners[0]

    def forms(self, section: TuningSection) -> list[Rule]:
        """Return a rule for each combination of whole numbers that tuning tries: other numbers change no cost."""
        values = {
            key: own if isinstance(self.open[key], Whole) else own[:1] for key, own in self.values(section).items()
        }
        return [self.rule(dict(zip(values, chosen, strict=True))) for chosen in itertools.product(*values.values())]


@dataclass(frozen=True, eq=False)
class Setup:
    """The objects of an experiment: what runs, for how long, on which seeds, and how it is tuned."""

    candidates: list[Candidate]
    problem: Problem
    network: Network
    oracle: Oracle
    plan: RunPlan
    seeds: list[int]
    run: RunSection
    tuning: TuningSection | None = None
    clock: Clock | None = None
    key: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The part of a cache key that stands for the problem, the network and the oracle."""
    makers: tuple[Callable[..., Any], ...] = ()
    """The user's own functions that built some of the objects."""

    @functools.cached_property
    def shares(self) -> list[list[int]]:
        """The seeds of each tuning replicate; all in one where nothing is tuned."""
        size = len(self.seeds) // (self.tuning.replicates if self.tuning else 1)
        return [self.seeds[k : k + size] for k in range(0, len(self.seeds), size)]

    @functools.cached_property
    def width(self) -> Width:
        """The shape of a compiled block of the final runs."""
        return Width(self.run.together, self.run.seeds_together or len(self.shares[0]))

    def check(self) -> None:
        """Raise InputError for objects that cannot run together, or that could not be told apart in a result."""
        run, tuning, seeds = self.run, self.tuning, self.seeds
        with errors_at("[run]"):
            if self.plan.until and run.settle is not None:
                raise InputError("until ends runs early and settle makes them longer: leave one of them out.")
            if run.equal != "rounds" and (self.plan.until or run.settle is not None):
                given = "until" if self.plan.until else "settle"
                raise InputError(
                    f'equal = "{run.equal}" sets how long each method runs, and so does {given}: take one.'
                )
            has_axis = {
                "seconds": self.clock is not None,
                "joules": self.clock is not None and self.clock.energy is not None,
            }
            if not has_axis.get(run.equal, True):
                raise InputError(f'equal = "{run.equal}" needs a clock that counts them: add [clock], or clock=….')
            # a final run on samples that chose its numbers would look better than it is
            if tuning and max(seeds) >= FIRST_SEED:
                raise InputError(f"seeds from {FIRST_SEED:,} on are for tuning: choose others.")
            if run.settle is not None and run.settle < self.plan.steps:
                raise InputError(f"settle = {run.settle} is the most rounds, but steps = {self.plan.steps} is more.")
            if run.seeds_together is None and len(seeds) > WIDEST:
                raise InputError(
                    f"{len(seeds):,} seeds in one block are too many: give seeds_together as well, or take at most "
                    f"{WIDEST:,}."
                )
        fixed = [candidate.whole for candidate in self.candidates if not candidate.open]
        check(fixed, self.problem, self.network, self.oracle, tuned=len(self.candidates) - len(fixed))
        if tuning is None:
            return
        with errors_at("[tuning]"):
            if len(seeds) % tuning.replicates:
                raise InputError(
                    f"replicates = {tuning.replicates} must share the {len(seeds)} seeds of [run] equally: take a "
                    f"multiple of {tuning.replicates} seeds."
                )
            kinds = [*(candidate.kind for candidate in self.candidates), *ALGORITHMS.values()]
            names = {key for kind in kinds for key, allowed in hyperparameters(kind).items() if not allowed.step}
            for key, values in tuning.grids.items():
                if any(isinstance(hyperparameters(kind).get(key), WarmStart) for kind in kinds):
                    raise InputError(
                        f"{key} is not tuned, since it costs messages before round 0: give it in [[algorithm]], once "
                        "for each value to compare."
                    )
                if key not in names:
                    fields = [name for name in TuningSection.model_fields if name != "grids"]
                    raise InputError(f"key {brief(key)} is not known; {nearest(key, [*fields, *names])}")
                for candidate in self.candidates:
                    if (allowed := hyperparameters(candidate.kind).get(key)) is not None:
                        for value in values:
                            allowed.check(f"{key} = […]", value)
        titles = []
        for number, candidate in enumerate(self.candidates, start=1):
            if candidate.open:
                with errors_at(f"[tuning] of [[algorithm]] number {number}:"):
                    check([candidate.example(tuning)], self.problem, self.network, self.oracle)
                titles.append(candidate.title)
        if twice := next((title for title in titles if titles.count(title) > 1), None):
            raise InputError(
                f"{twice} is given {titles.count(twice)} times with something to tune, and results could not be told "
                "apart: tune it once, and give the others all their numbers, or a warm of their own."
            )

    def check_size(self) -> None:
        """Raise InputError for runs that would not fit into memory.

        Rules are traced here for the first time, so that those which break the contract are refused, too.
        """
        tuning = self.tuning
        with errors_at("[run]"):
            plans = self.plans
        for number, candidate in enumerate(self.candidates):
            rule = candidate.example(tuning) if tuning and candidate.open else candidate.whole
            self.check_memory([rule], self.seeds, plans[number], self.width)
            if tuning and candidate.open:
                plan, width, seeds = self.plan_tuning(0, number)
                with errors_at("[tuning]"):
                    self.check_memory([rule] * tuning.budget, seeds, plan, width)
                    self.check_measured(rule, tuning.criterion)

    def check_memory(self, rules: Sequence[Rule], seeds: Sequence[int], plan: RunPlan, width: Width) -> None:
        """Raise InputError if runs of these rules would not fit into memory."""
        fits([Setting(rule, self.oracle) for rule in rules], self.problem, self.network, seeds, plan, width)

    def check_measured(self, rule: Rule, criterion: str) -> None:
        """Raise InputError for a metric that does not apply to this problem, such as the accuracy of a quadratic."""
        if criterion in ("rounds", "loss", "grad_norm_sq"):  # which apply to every problem
            return
        dtype, problem = self.plan.dtype, honest_problem(self.problem, self.network, self.oracle)
        state = trace(rule, self.problem, self.network, self.oracle, dtype).before

        def measure_all(state: Any, keys: Any) -> dict[str, Any]:
            site = Site(problem, jnp.int32(0), keys[0, 0], jnp.int32(0))
            bias = self.oracle.bias(site, self.oracle.init(site))
            return measure(
                select_metrics(), problem, rule, state, None if bias is None else state.x
            )  # of the same shape

        with jax.enable_x64(dtype == "float64"):
            applies = jax.eval_shape(measure_all, state, key_shapes(1, 1))
        if criterion not in applies:
            raise InputError(
                f"the criterion {criterion} is not measured in these runs ({METRICS[criterion].label.about}): take "
                f"one of {', '.join(applies)}, or rounds."
            )

    @functools.cached_property
    def plans(self) -> list[RunPlan]:
        """The plan of each candidate's runs."""
        return [self.plan._replace(steps=steps) for steps in self._equal_rounds(self.plan.steps)]

    @functools.cached_property
    def _tuning_rounds(self) -> list[int]:
        assert self.tuning is not None
        return self._equal_rounds(self.tuning.steps or self.plan.steps)

    def _equal_rounds(self, steps: int) -> list[int]:
        """Return the rounds of each candidate in which it pays no more than the cheapest of them in `steps`."""
        axis = self.run.equal
        if axis == "rounds":
            return [steps] * len(self.candidates)
        world = self.problem, self.network, self.oracle, self.plan.dtype, self.clock
        paid = []
        for one in self.candidates:
            rules = one.forms(self.tuning) if self.tuning and one.open else [one.whole]
            first, *others = (cost_by_round(axis, rule, *world, steps) for rule in rules)
            # a number of local steps, say, changes what a round costs
            if any(not np.allclose(own, first, rtol=1e-9, atol=0) for own in others):
                chosen = join_words([key for key, allowed in one.open.items() if isinstance(allowed, Whole)])
                raise InputError(
                    f'the {axis} of {one.name} depend on {chosen}, so that equal = "{axis}" cannot say for how many '
                    f"rounds to tune it: give {chosen} in [[algorithm]], once for each value to compare."
                )
            paid.append(first)
        names = [one.name for one in self.candidates]
        if free := next((name for name, own in zip(names, paid, strict=True) if own[-1] <= 0), None):
            raise InputError(f'{free} pays no {axis}: equal = "{axis}" compares methods that all pay some.')
        cheapest = min(range(len(paid)), key=lambda k: paid[k][-1])
        budget = paid[cheapest][-1] * (1 + 1e-9)  # the sums of equal costs may differ in their last bits
        for name, amounts in zip(names, paid, strict=True):
            if amounts[1] > budget:
                raise InputError(
                    f"{name} pays {amounts[1]:.4g} {axis} until the end of its first round, but {names[cheapest]} pays "
                    f'{budget:.4g} in {plural(steps, "round")}: take more steps, or another equal than "{axis}".'
                )
        return [int(np.searchsorted(amounts, budget, "right")) - 1 for amounts in paid]

    def plan_tuning(self, replicate: int, number: int) -> tuple[RunPlan, Width, list[int]]:
        """Return the plan of a candidate's tuning runs, the shape of their blocks, and a replicate's tuning seeds."""
        section = self.tuning
        assert section is not None
        steps = self._tuning_rounds[number]
        if section.criterion == "rounds":
            # rounds to a target are read between two marks, so these are dense where fast methods arrive
            every = max(1, steps // 500), max(1, steps // 10)
            metrics = {"loss", *(section.until or ())}
        else:
            # loss and ‖∇F‖² are both measured, so that the same stored runs serve either criterion
            every, metrics = (steps, steps), {"loss", "grad_norm_sq", section.criterion}
        until, names = targets(section.until), tuple(sorted(metrics))
        plan = RunPlan(steps, every, self.plan.dtype, until=until, metrics=names, apart=self.plan.apart)
        first = section.first_seed + replicate * section.seeds
        # blocks of other samplers are as wide as a stage after the first: wider ones would compute what nobody reads
        width = section.together if section.sampler == "grid" else min(section.together, max(section.stages[1:]))
        return plan, Width(width, 1), list(range(first, first + section.seeds))

    def setting(self, rule: Rule) -> Setting:
        """Return the rule and the oracle as the engine takes them, with their cache key."""
        return Setting(rule, self.oracle, functools.partial(self.key_of, rule))

    @functools.cached_property
    def contents(self) -> str:
        """The digest of all that the problem, the network and the oracle hold, as a part of cache keys.

        A spec does not decide it: the code that reads specs, and packages such as NumPy, may build other objects of it.
        """
        return self.key.get("objects") or digest(self.problem, self.network, self.oracle)

    def key_of(self, rule: Rule) -> dict[str, Any]:
        """Return all that determines a run of this rule, besides its seed, its length and its block."""
        hyper = {name: getattr(rule, name) for name in hyperparameters(type(rule))}
        for name, value in hyper.items():
            if isinstance(value, Schedule):
                hyper[name] = value.asdict()
            elif callable(value):  # its source is part of what the rule is made by
                hyper[name] = "its own function"
        return {
            **self.key,
            "algorithm": rule.name,
            "hyper": hyper,
            "parts": {name: str(part) for name, part in parts(rule).items()},
            MADE_BY: describe_code((rule, self.makers, own()), lambda: self.contents, self.problem),
        }
