"""Specs: an experiment as data, read from TOML or made in Python."""

import inspect
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import tomlkit

from gossamer import networks
from gossamer.algorithms import ALGORITHMS
from gossamer.core import InputError, brief, check_schedules
from gossamer.data import DATASETS
from gossamer.data.files import files_of
from gossamer.engines.blame import blamed
from gossamer.engines.simulator import check, planned
from gossamer.networks.files import digests_of, located
from gossamer.networks.registry import of_table
from gossamer.oracles import STAGES, Oracle, exact, minibatch
from gossamer.problems import PROBLEMS, Problem
from gossamer.schedules import SCHEDULES, Schedule
from gossamer.specs.candidates import Candidate, check_grids
from gossamer.specs.making import explained, made, placed, plain, with_parts
from gossamer.specs.parts import Parts, makers, named
from gossamer.specs.sections import (
    FIRST_SEED,
    ClockSection,
    OracleSection,
    RunSection,
    Section,
    TuningSection,
    VariantSection,
)
from gossamer.specs.timing import located as located_clock
from gossamer.specs.timing import timed

T = TypeVar("T")

PATHS = ("data", "test")
"""Keys of a problem that may be files, found from the spec's own directory."""


class Spec(Section):
    """An experiment. The sections are those of the TOML file; `[[algorithm]]` and `[[variant]]` are lists."""

    title: str = ""
    experiment: str = ""
    """The name of a paper's experiment that this is, which a report then judges."""
    problem: dict[str, Any]
    network: dict[str, Any]
    oracle: OracleSection = OracleSection()
    run: RunSection
    clock: ClockSection | None = None
    tuning: TuningSection | None = None
    variant: list[VariantSection] = pydantic.Field(default=[])
    algorithm: list[dict[str, Any]]

    @staticmethod
    def read(path: str | Path) -> "Spec":
        """The spec in a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InputError(f"{path} does not exist. `gossamer init` writes one to start from.") from None
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
        variants = [variant.model_copy(update=_placed_in(Path(folder), variant)) for variant in spec.variant]
        return spec.model_copy(update=_placed_in(Path(folder), spec) | ({"variant": variants} if variants else {}))

    def toml(self) -> str:
        """The spec as TOML, with every path absolute and every default that was left out still left out."""
        return tomlkit.dumps(self.model_dump(exclude_unset=True))

    def variants(self) -> dict[str, "Spec"]:
        """The spec of each variant, without variants of its own; itself, under "", where there are none."""
        names = [variant.name for variant in self.variant]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"[[variant]] names must differ, but {names.count(twice)} are {brief(twice)}.")
        specs = {}
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
                if variant.clock and self.clock is None:
                    raise InputError('it changes [clock], but the spec has none: add one, such as links = "internet".')
                if self.clock is not None:
                    update["clock"] = _changed(self.clock, variant.clock, "clock ")
                if variant.tuning and self.tuning is None:
                    raise InputError(
                        "it changes [tuning], but the spec has none: add one with eta = [lowest, highest]."
                    )
                if self.tuning is not None:
                    update["tuning"] = _changed(self.tuning, variant.tuning, "tuning ")
            specs[variant.name] = self.model_copy(update=update)
        return specs or {"": self}

    def each(self, make: Callable[["Spec"], T]) -> dict[str, T]:
        """What is made of the spec of each variant; what is wrong with one is said with its name."""
        results = {}
        for variant, spec in self.variants().items():
            with placed(f"[[variant]] {brief(variant)}:") if variant else nullcontext():
                results[variant] = make(spec)
        return results

    def parts(self) -> Parts:
        """Everything that the spec names, made and checked; no run has begun."""
        problem = _problem(json.dumps(self.problem, sort_keys=True), _stamps(self.problem), _user_made(self.problem))
        with placed("[network]"):
            digests = digests_of(self.network)
        network = _network(
            json.dumps(self.network, sort_keys=True), problem.agents, (*_user_made(self.network), *digests)
        )
        clock, network = timed(self.clock, network)
        with placed("[oracle]"):
            oracle: Oracle = (
                exact() if self.oracle.batch is None else minibatch(self.oracle.batch, replace=self.oracle.replace)
            )
        for number, stage in enumerate(self.oracle.stages, start=1):
            where = f"[oracle] stage {number}:"
            made_stage = made(where, "kind", STAGES, with_parts(where, stage))
            with placed(where):
                oracle = oracle | made_stage
        self._check_run()
        candidates = [self._candidate(number, given, problem.agents) for number, given in enumerate(self.algorithm, 1)]
        fixed = [candidate.whole for candidate in candidates if not candidate.open]
        check(fixed, problem, network, oracle, tuned=len(candidates) - len(fixed))
        if self.tuning:
            self._check_tuned(self.tuning, candidates, problem, network, oracle)
        key = {
            "problem": self.problem | {"sha256": getattr(problem, "data_sha256", "")},
            "network": self.network | ({"sha256": digests} if digests else {}),
            "oracle": self.oracle.model_dump(),
        }
        return Parts(candidates, problem, network, oracle, key, makers(self), clock)

    def _check_run(self) -> None:
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
        if self.tuning and len(seeds) % self.tuning.replicates:
            raise InputError(
                f"[tuning] replicates = {self.tuning.replicates} must share the {len(seeds)} seeds of [run] equally: "
                f"take a multiple of {self.tuning.replicates} seeds."
            )

    def _candidate(self, number: int, given: dict[str, Any], agents: int) -> Candidate:
        """An algorithm with what is given of it; numbers may be missing if there is a `[tuning]`."""
        where = f"[[algorithm]] number {number}:"
        options = with_parts(where, given)
        name = options.pop("name", None)
        for key, value in options.items():
            if isinstance(value, dict):
                options[key] = self._schedule(f"{where} {key}:", value, agents)
            elif isinstance(value, list):
                raise InputError(
                    f"{where} {key} must be one value, but is {brief(value)}. To try several, give [[algorithm]] once "
                    "for each, or leave it out and add [tuning], which chooses."
                )
        candidate = Candidate(ALGORITHMS[name], options) if isinstance(name, str) and name in ALGORITHMS else None
        filled = {}
        if self.tuning and candidate:
            filled = {key: allowed.example for key, allowed in candidate.open.items()}
        whole = filled | options | ({} if name is None else {"name": name})
        rule = made(where, "name", ALGORITHMS, whole, otherwise="" if self.tuning else "add a [tuning] that chooses it")
        with placed(where):
            check_schedules([rule], max(self.run.settle or self.run.steps, (self.tuning and self.tuning.steps) or 0))
        return Candidate(type(rule), options)

    def _check_tuned(
        self,
        tuning: TuningSection,
        candidates: list[Candidate],
        problem: Problem,
        network: networks.Network,
        oracle: Oracle,
    ) -> None:
        """Check the rules that tuning would try as all others are; who chooses their numbers makes no difference."""
        with placed("[tuning]"):
            check_grids(tuning, candidates)
        names = []
        for number, candidate in enumerate(candidates, start=1):
            if candidate.open:
                with placed(f"[tuning] of [[algorithm]] number {number}:"):
                    check(candidate.tried(tuning)[:1], problem, network, oracle)
                names.append(candidate.title)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise InputError(
                f"{twice} is given {names.count(twice)} times with something to tune, and results could not be told "
                "apart: tune it once, and give the others all their numbers, or a warm of their own."
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


@lru_cache(maxsize=8)
def _problem(given: str, stamps: tuple[tuple[int, int], ...], user: tuple[Any, ...]) -> Problem:
    # cached, because the variants of a study often share it, and data are read and split once
    return made("[problem]", "name", PROBLEMS, json.loads(given))


@lru_cache(maxsize=8)
def _network(given: str, agents: int, user: tuple[Any, ...]) -> networks.Network:
    with placed("[network]"), blamed("the network"):
        return of_table(json.loads(given), agents)


def _user_made(table: dict[str, Any]) -> tuple[Any, ...]:
    """The user's own functions that a table names: another function of the same name makes another thing."""
    return (*named(PROBLEMS, "name", table), *named(networks.NETWORKS, "name", table), *named(DATASETS, "data", table))


def _placed_in(folder: Path, section: Spec | VariantSection) -> dict[str, Any]:
    """The problem and the network of a spec or a variant, with the paths of their files absolute."""
    network = {} if section.network is None else {"network": located(section.network, folder)}
    return {"problem": _found(section.problem, folder)} | network | located_clock(section.clock, folder)


def _found(problem: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The keys of a problem with its files' paths absolute; names of data sets stay as they are."""
    placed_problem = dict(problem)
    for key in PATHS:
        value = problem.get(key)
        if isinstance(value, str) and value not in DATASETS:
            path = folder / value
            placed_problem[key] = (
                os.path.realpath(path) if os.path.exists(path) or path.suffix or "/" in value else value
            )
    return placed_problem


def _stamps(problem: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """When the problem's files were last changed, and their sizes."""
    files = [file for key in PATHS if isinstance(problem.get(key), str) for file in files_of(problem[key])]
    return tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in files)
