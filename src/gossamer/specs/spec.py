"""Specs: an experiment as data, read from TOML or made in Python."""

import inspect
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pydantic
import tomlkit

from gossamer import networks
from gossamer.algorithms import ALGORITHMS
from gossamer.compressors import COMPRESSORS
from gossamer.core import InputError, brief, check_schedules, parts, ranges
from gossamer.data import DATASETS
from gossamer.engines.simulator import check, planned
from gossamer.metrics import own
from gossamer.networks.registry import of_table
from gossamer.oracles import STAGES, Oracle, exact, minibatch
from gossamer.problems import PROBLEMS, Problem
from gossamer.results.fingerprint import made_by
from gossamer.results.links import Link, together
from gossamer.results.store import MADE_BY
from gossamer.schedules import SCHEDULES, Schedule
from gossamer.specs.making import explained, made, placed, plain
from gossamer.specs.sections import (
    FIRST_SEED,
    LinkSection,
    OracleSection,
    RunSection,
    Section,
    TuningSection,
    VariantSection,
)

T = TypeVar("T")

PATHS = ("data", "test")
"""Keys of a problem that may be files, found from the spec's own directory."""


class Parts(NamedTuple):
    """What a spec describes, made and checked. Hyper-parameters that are to be tuned are left out of `algorithms`."""

    algorithms: list[tuple[str, dict[str, Any]]]
    problem: Problem
    network: networks.Network
    oracle: Oracle
    key: dict[str, Any]
    """What the store calls the problem, the network and the oracle."""

    def key_of(self, rule: Any) -> dict[str, Any]:
        """All that determines a run of this rule, besides its seed, its length and its block."""
        numbers = {name: getattr(rule, name) for name in ranges(type(rule))}
        return {
            **self.key,
            "algorithm": rule.name,
            "hyper": {
                name: "its own function" if callable(value) and not isinstance(value, Schedule) else _stored(value)
                for name, value in numbers.items()
            },
            "parts": {name: str(part) for name, part in parts(rule).items()},
            MADE_BY: made_by(rule, self.oracle, self.problem, self.network, own()),
        }


class Spec(Section):
    """An experiment. The sections are those of the TOML file; `[[algorithm]]` and `[[variant]]` are lists."""

    title: str = ""
    problem: dict[str, Any]
    network: dict[str, Any]
    oracle: OracleSection = OracleSection()
    run: RunSection
    links: dict[str, LinkSection] = pydantic.Field(default={})
    tuning: TuningSection | None = None
    variant: list[VariantSection] = pydantic.Field(default=[])
    algorithm: list[dict[str, Any]]

    @staticmethod
    def read(path: str | Path) -> "Spec":
        """The spec in a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InputError(f"{path} does not exist. Specs to start from are in the project's examples/.") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from error
        except (TypeError, ValueError) as error:  # not a path, or not UTF-8
            shown = path if isinstance(path, (str, Path)) else brief(path)
            raise InputError(f"{shown} cannot be read: {error}.") from error
        try:
            given = tomllib.loads(text)
        except ValueError as error:
            raise InputError(f"{path} is not TOML: {error}.") from error
        except RecursionError:
            raise InputError(f"{path} is not a spec: it nests too many lists and tables.") from None
        with placed(str(path)):
            return Spec.of(given, Path(path).parent)

    @staticmethod
    def of(given: dict[str, Any], folder: str | Path = ".") -> "Spec":
        """The spec of a dictionary with the same keys as the file; relative paths start at `folder`."""
        if not isinstance(given, Mapping):
            raise InputError(f"a spec is a dictionary with the keys of the file, but this is {brief(given)}.")
        with explained(list(Spec.model_fields), "", Spec):
            spec = Spec.model_validate(plain(dict(given)))
        variants = [
            variant.model_copy(update={"problem": _found(variant.problem, Path(folder))}) for variant in spec.variant
        ]
        update = {"problem": _found(spec.problem, Path(folder))} | ({"variant": variants} if variants else {})
        return spec.model_copy(update=update)

    def toml(self) -> str:
        """The spec as TOML, with every path absolute and every default that was left out still left out."""
        return tomlkit.dumps(self.model_dump(exclude_unset=True))

    @property
    def is_study(self) -> bool:
        """Whether it has variants or tunes, and so gives more than one result."""
        return bool(self.variant or self.tuning)

    def variants(self) -> dict[str, "Spec"]:
        """The spec of each variant, without variants of its own; itself, under "", where there are none."""
        names = [variant.name for variant in self.variant]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"[[variant]] names must differ, but {names.count(twice)} are {brief(twice)}.")
        found = {}
        for variant in self.variant:
            with placed(f"[[variant]] {brief(variant.name)}:"):
                update = {
                    "problem": self.problem | variant.problem,
                    "network": self.network if variant.network is None else variant.network,
                    "oracle": _changed(self.oracle, variant.oracle, "oracle "),
                    "run": _changed(self.run, variant.run, "run "),
                    "algorithm": [options | variant.algorithm for options in self.algorithm],
                    "variant": [],
                }
                if variant.tuning and self.tuning is None:
                    raise InputError(
                        "it changes [tuning], but the spec has none: add one with eta = [lowest, highest]."
                    )
                if self.tuning is not None:
                    update["tuning"] = _changed(self.tuning, variant.tuning, "tuning ")
            found[variant.name] = self.model_copy(update=update)
        return found or {"": self}

    def each(self, make: Callable[["Spec"], T]) -> dict[str, T]:
        """What is made of the spec of each variant; what is wrong with one is said with its name."""
        found = {}
        for variant, one in self.variants().items():
            with placed(f"[[variant]] {brief(variant)}:") if variant else nullcontext():
                found[variant] = make(one)
        return found

    def parts(self) -> Parts:
        """Everything that the spec names, made and checked; no run has begun."""
        problem = _problem(json.dumps(self.problem, sort_keys=True), _stamps(self.problem))
        network = _network(json.dumps(self.network, sort_keys=True), problem.agents)
        with placed("[oracle]"):
            oracle: Oracle = (
                exact() if self.oracle.batch is None else minibatch(self.oracle.batch, replace=self.oracle.replace)
            )
        for number, stage in enumerate(self.oracle.stages):
            oracle = oracle | made(f"[oracle] stage {number}:", "kind", STAGES, stage)
        with placed("[run]"):
            plan, seeds = planned(self.run.steps, self.run.every, self.run.seeds, self.run.dtype, self.run.until)
            if plan.until and self.run.settle is not None:
                raise InputError("until ends runs early and settle makes them longer: leave one of them out.")
            if self.tuning and max(seeds) >= FIRST_SEED:
                raise InputError(f"seeds from {FIRST_SEED:,} on are for tuning: choose others.")
            if self.run.settle is not None and self.run.settle < self.run.steps:
                raise InputError(
                    f"settle = {self.run.settle} is the most rounds, but steps = {self.run.steps} is more."
                )
        self.modelled()
        if self.tuning and len(seeds) % self.tuning.replicates:
            raise InputError(
                f"[tuning] replicates = {self.tuning.replicates} must share the {len(seeds)} seeds of [run] equally: "
                f"take a multiple of {self.tuning.replicates} seeds."
            )
        algorithms = [self._algorithm(number, given, problem.agents) for number, given in enumerate(self.algorithm)]
        fixed = [ALGORITHMS[name](**hyper) for name, hyper in algorithms if not self.tuning or not left(name, hyper)]
        check(fixed, problem, network, oracle, tuned=len(algorithms) - len(fixed))
        if self.tuning:
            self._check_tuned(algorithms, problem, network, oracle)
        key = {
            "problem": self.problem | {"sha256": getattr(problem, "data_sha256", "")},
            "network": self.network,
            "oracle": self.oracle.model_dump(),
        }
        return Parts(algorithms, problem, network, oracle, key)

    def modelled(self) -> dict[str, Link]:
        """The links that seconds are modelled on: the presets and those of the spec."""
        with placed("[links]"):
            return together({name: Link(**link.model_dump()) for name, link in self.links.items()})

    def _algorithm(self, number: int, given: dict[str, Any], agents: int) -> tuple[str, dict[str, Any]]:
        """The name and the hyper-parameters of an algorithm; numbers may be missing if there is a `[tuning]`."""
        where, options = f"[[algorithm]] number {number}:", dict(given)
        name = options.pop("name", None)
        for key, value in options.items():
            if key == "compressor":
                if not isinstance(value, dict):
                    raise InputError(f'{where} compressor must be a table, {{ kind = "…" }}, but is {brief(value)}.')
                options[key] = made(f"{where} compressor:", "kind", COMPRESSORS, value)
            elif isinstance(value, dict):
                options[key] = self._schedule(f"{where} {key}:", value, agents)
        filled = options
        if self.tuning and isinstance(name, str) and name in ALGORITHMS:
            filled = {key: 0.5 for key in ranges(ALGORITHMS[name])} | options
        rule = made(where, "name", ALGORITHMS, filled | ({} if name is None else {"name": name}))
        with placed(where):
            check_schedules([rule], max(self.run.settle or self.run.steps, (self.tuning and self.tuning.steps) or 0))
        return rule.name, options

    def _check_tuned(
        self, algorithms: list[tuple[str, dict[str, Any]]], problem: Problem, network: networks.Network, oracle: Oracle
    ) -> None:
        """Check the rules that tuning would try as all others are; who chooses their numbers makes no difference."""
        assert self.tuning is not None
        labels = []
        for number, (name, hyper) in enumerate(algorithms):
            if left(name, hyper):
                with placed(f"[tuning] of [[algorithm]] number {number}:"):
                    rules = tried(name, hyper, self.tuning)
                    check(rules[:1], problem, network, oracle)
                labels.append(name)
        twice = next((name for name in labels if labels.count(name) > 1), None)
        if twice:
            raise InputError(
                f"{twice} is given {labels.count(twice)} times with something to tune, and results could not be told "
                "apart: tune it once, and give the others all their numbers."
            )

    def _schedule(self, where: str, given: dict[str, Any], agents: int) -> Schedule:
        """A schedule; the number of rounds and of agents are the run's unless they are given."""
        name = given.get("schedule")
        make = SCHEDULES.get(name) if isinstance(name, str) else None
        known = inspect.signature(make).parameters if make else {}
        own = {key: value for key, value in {"steps": self.run.steps, "agents": agents}.items() if key in known}
        return made(where, "schedule", SCHEDULES, own | given)


S = TypeVar("S", bound=Section)


def _changed(section: S, changes: dict[str, Any], where: str) -> S:
    """The section with some of its keys changed, checked anew."""
    with explained(list(type(section).model_fields), where):
        return type(section).model_validate(section.model_dump(exclude_unset=True) | changes)


def left(name: str, hyper: dict[str, Any]) -> list[str]:
    """The numbers of an algorithm that are left to tuning."""
    return [key for key in ranges(ALGORITHMS[name]) if key not in hyper]


def tried(name: str, fixed: dict[str, Any], section: TuningSection) -> list[Any]:
    """Rules with the numbers that the first grid of tuning reaches: the ends of η, and each value of what else is open.

    Each has been checked as a rule that a user makes. The first stands for all of them where it is asked what suits a
    network and a problem, because that does not depend on the numbers.
    """
    missing = [part for part in parts(ALGORITHMS[name]) if part not in fixed]
    if missing:
        raise InputError(f"{name} needs a {missing[0]}, which tuning does not choose: give it, in a spec.")
    keys = left(name, fixed)
    if "eta" not in keys:
        raise InputError(f"{name} fixes eta, so that there is no grid to extend: give all of it, or leave eta out.")
    if len(keys) > 2:
        raise InputError(
            f"{name} leaves {', '.join(keys)} open, but the grid varies eta and one more: give all but one of "
            f"{', '.join(keys[1:])}."
        )
    settings = [{"eta": eta} for eta in section.eta]
    for second in keys[1:]:
        settings = [one | {second: value} for value in getattr(section, second) for one in settings]
    return [ALGORITHMS[name](**fixed, **one) for one in settings]


@lru_cache(maxsize=8)
def _problem(given: str, stamps: tuple[tuple[int, int], ...]) -> Problem:
    # cached, because the variants of a study often share it, and data are read and split once
    return made("[problem]", "name", PROBLEMS, json.loads(given))


@lru_cache(maxsize=8)
def _network(given: str, agents: int) -> networks.Network:
    with placed("[network]"):
        return of_table(json.loads(given), agents)


def _found(problem: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The keys of a problem with its files' paths absolute; names of data sets stay as they are."""
    found = dict(problem)
    for key in PATHS:
        value = problem.get(key)
        if isinstance(value, str) and value not in DATASETS:
            path = folder / value
            found[key] = os.path.realpath(path) if os.path.exists(path) or path.suffix or "/" in value else value
    return found


def _stamps(problem: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """When the problem's files were last changed, and their sizes."""
    files = [Path(problem[key]) for key in PATHS if isinstance(problem.get(key), str)]
    return tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in files if os.path.isfile(file))


def _stored(value: Any) -> Any:
    """A hyper-parameter as the store calls it."""
    return value.asdict() if isinstance(value, Schedule) else value
