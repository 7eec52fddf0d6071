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
from gossamer.clocks import COMPUTE, LINKS, Clock, clock
from gossamer.core import InputError, brief, check_schedules
from gossamer.data import DATASETS
from gossamer.data.files import files_of
from gossamer.engines.blame import blame
from gossamer.engines.runs import RunPlan
from gossamer.engines.simulator import apply_clock, check, plan_run
from gossamer.networks.files import digests_of
from gossamer.networks.files import resolve_files as with_absolute_files
from gossamer.networks.registry import of_table
from gossamer.oracles import STAGES, Oracle, exact, minibatch
from gossamer.problems import PROBLEMS, Problem
from gossamer.schedules import SCHEDULES, Schedule
from gossamer.specs.experiment import PART_REGISTRIES, Candidate, Experiment, check_grids, find_makers, named_own
from gossamer.specs.sections import (
    FIRST_SEED,
    WIDEST,
    ClockSection,
    OracleSection,
    RunSection,
    Section,
    TuningSection,
    VariantSection,
)
from gossamer.specs.tables import build_object, build_parts, located, plain, validate

T = TypeVar("T")
S = TypeVar("S", bound=Section)

PATHS = ("data", "test")
"""Keys of a problem that may be files, found from the spec's own directory."""

CLOCK_TABLES = {"links": LINKS, "compute": COMPUTE}
"""Keys of `[clock]` that may be tables, and the registry of each."""


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
        """Read the spec in a TOML file."""
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
        with located(str(path)):
            return Spec.of(given, Path(path).parent)

    @staticmethod
    def of(given: dict[str, Any], folder: str | Path = ".") -> "Spec":
        """Return the spec of a dictionary with the same keys as the file; relative paths start at `folder`."""
        if not isinstance(given, Mapping):
            raise InputError(f"a spec is a dictionary with the keys of the file, but this is {brief(given)}.")
        spec = validate(Spec, plain(dict(given)))
        variants = [variant.model_copy(update=_absolute_paths(Path(folder), variant)) for variant in spec.variant]
        update = _absolute_paths(Path(folder), spec) | ({"variant": variants} if variants else {})
        spec = spec.model_copy(update=update)
        spec.variants()  # a wrong key of a variant is refused when the spec is read
        return spec

    def toml(self) -> str:
        """Return the spec as TOML, with every path absolute and without the defaults that were left out."""
        return tomlkit.dumps(self.model_dump(exclude_unset=True))

    def variants(self) -> dict[str, "Spec"]:
        """Return the spec of each variant, without variants of its own; without any, this spec under ""."""
        names = [variant.name for variant in self.variant]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"[[variant]] names must differ, but {names.count(twice)} are {brief(twice)}.")
        specs = {}
        for variant in self.variant:
            with located(f"[[variant]] {brief(variant.name)}:"):
                if variant.clock and self.clock is None:
                    raise InputError('it changes [clock], but the spec has none: add one, such as links = "internet".')
                if variant.tuning and self.tuning is None:
                    raise InputError(
                        "it changes [tuning], but the spec has none: add one with eta = [lowest, highest]."
                    )
                update: dict[str, Any] = {
                    "problem": self.problem | variant.problem,
                    "network": self.network if variant.network is None else variant.network,
                    "algorithm": [options | variant.algorithm for options in self.algorithm],
                    "variant": [],
                }
                for key in ("oracle", "run", "clock", "tuning"):
                    if (section := getattr(self, key)) is not None:
                        update[key] = _change(section, getattr(variant, key), f"{key} ")
            specs[variant.name] = self.model_copy(update=update)
        return specs or {"": self}

    def each(self, make: Callable[["Spec"], T]) -> dict[str, T]:
        """Apply `make` to the spec of each variant. Errors name the variant."""
        results = {}
        for variant, spec in self.variants().items():
            with located(f"[[variant]] {brief(variant)}:") if variant else nullcontext():
                results[variant] = make(spec)
        return results

    def parts(self) -> Experiment:
        """Build and check everything that the spec names. No run begins."""
        own = _own_makers(self.problem)
        problem = _build_problem(json.dumps(self.problem, sort_keys=True), _stamps(self.problem), own)
        with located("[network]"):
            digests = digests_of(self.network)
        network = _build_network(
            json.dumps(self.network, sort_keys=True), problem.agents, (*_own_makers(self.network), *digests)
        )
        clock, network = self._build_clock(network)
        oracle = self._build_oracle()
        plan, seeds = self._plan()
        candidates = [
            self._build_candidate(number, given, problem.agents) for number, given in enumerate(self.algorithm, 1)
        ]
        fixed = [candidate.whole for candidate in candidates if not candidate.open]
        check(fixed, problem, network, oracle, tuned=len(candidates) - len(fixed))
        if self.tuning:
            self._check_tuned(self.tuning, candidates, problem, network, oracle)
        key = {
            "problem": self.problem | {"sha256": getattr(problem, "data_sha256", "")},
            "network": self.network | ({"sha256": digests} if digests else {}),
            "oracle": self.oracle.model_dump(),
        }
        made_of = candidates, problem, network, oracle
        return Experiment(*made_of, plan, seeds, self.run, self.tuning, clock, key, find_makers(self))

    def _build_clock(self, network: networks.Network) -> tuple[Clock | None, networks.Network]:
        """Return the clock, if the spec has one, and the network, which goes by the clock if it is asynchronous."""
        if self.clock is None:
            return apply_clock(None, network)
        given = self.clock.model_dump()
        for key, registry in CLOCK_TABLES.items():
            if isinstance(given[key], dict):
                given[key] = build_object(f"[clock] {key}:", "kind", registry, given[key])
        with located("[clock]"):
            return apply_clock(clock(**given), network)

    def _build_oracle(self) -> Oracle:
        batch = self.oracle.batch
        with located("[oracle]"):
            oracle: Oracle = exact() if batch is None else minibatch(batch, replace=self.oracle.replace)
        for number, given in enumerate(self.oracle.stages, start=1):
            where = f"[oracle] stage {number}:"
            stage = build_object(where, "kind", STAGES, build_parts(where, given, PART_REGISTRIES))
            with located(where):
                oracle = oracle | stage
        return oracle

    def _plan(self) -> tuple[RunPlan, list[int]]:
        """Return the plan of the final runs and their seeds."""
        run, tuning = self.run, self.tuning
        with located("[run]"):
            plan, seeds = plan_run(run.steps, run.every, run.seeds, run.dtype, run.until)
            if plan.until and run.settle is not None:
                raise InputError("until ends runs early and settle makes them longer: leave one of them out.")
            if tuning and max(seeds) >= FIRST_SEED:
                raise InputError(f"seeds from {FIRST_SEED:,} on are for tuning: choose others.")
            if run.settle is not None and run.settle < run.steps:
                raise InputError(f"settle = {run.settle} is the most rounds, but steps = {run.steps} is more.")
            if run.seeds_together is None:
                check_seeds(len(seeds), "give seeds_together as well, or ")
        if tuning and len(seeds) % tuning.replicates:
            raise InputError(
                f"[tuning] replicates = {tuning.replicates} must share the {len(seeds)} seeds of [run] equally: take "
                f"a multiple of {tuning.replicates} seeds."
            )
        return plan, seeds

    def _build_candidate(self, number: int, given: dict[str, Any], agents: int) -> Candidate:
        """Return the candidate of an `[[algorithm]]`. With a `[tuning]`, numbers may be missing."""
        where = f"[[algorithm]] number {number}:"
        options = build_parts(where, given, PART_REGISTRIES)
        name = options.pop("name", None)
        for key, value in options.items():
            if isinstance(value, dict):
                options[key] = self._build_schedule(f"{where} {key}:", value, agents)
            elif isinstance(value, list):
                raise InputError(
                    f"{where} {key} must be one value, but is {brief(value)}. To try several, give [[algorithm]] once "
                    "for each, or leave it out and add [tuning], which chooses."
                )
        whole = options if name is None else options | {"name": name}
        if self.tuning and isinstance(name, str) and name in ALGORITHMS:
            left_open = Candidate(ALGORITHMS[name], options).open
            whole = {key: allowed.example for key, allowed in left_open.items()} | whole
        otherwise = "" if self.tuning else "add a [tuning] that chooses it"
        rule = build_object(where, "name", ALGORITHMS, whole, otherwise)
        with located(where):
            check_schedules([rule], max(self.run.settle or self.run.steps, (self.tuning and self.tuning.steps) or 0))
        return Candidate(type(rule), options)

    def _build_schedule(self, where: str, given: dict[str, Any], agents: int) -> Schedule:
        """Return a schedule; the number of rounds and of agents are the run's unless they are given."""
        name = given.get("schedule")
        make = SCHEDULES.get(name) if isinstance(name, str) else None
        known = inspect.signature(make).parameters if make else {}
        own = {key: value for key, value in {"steps": self.run.steps, "agents": agents}.items() if key in known}
        return build_object(where, "schedule", SCHEDULES, own | given)

    def _check_tuned(
        self,
        tuning: TuningSection,
        candidates: list[Candidate],
        problem: Problem,
        network: networks.Network,
        oracle: Oracle,
    ) -> None:
        """Raise InputError for rules of the grid that could not run, or could not be told apart in a result."""
        with located("[tuning]"):
            check_grids(tuning, candidates)
        names = []
        for number, candidate in enumerate(candidates, start=1):
            if candidate.open:
                with located(f"[tuning] of [[algorithm]] number {number}:"):
                    check([candidate.example(tuning)], problem, network, oracle)
                names.append(candidate.title)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise InputError(
                f"{twice} is given {names.count(twice)} times with something to tune, and results could not be told "
                "apart: tune it once, and give the others all their numbers, or a warm of their own."
            )


def check_seeds(count: int, advice: str = "") -> None:
    """Raise InputError for more seeds than one compiled block holds."""
    if count > WIDEST:
        raise InputError(f"{count:,} seeds in one block are too many: {advice}take at most {WIDEST:,}.")


def _change(section: S, changes: dict[str, Any], where: str) -> S:
    """Return the section with some of its keys changed, checked anew."""
    return validate(type(section), section.model_dump(exclude_unset=True) | changes, where) if changes else section


# cached, because the variants of a study often share a problem, whose data are then read and split once; the stamps of
# files and the user's own functions are part of the key
@lru_cache(maxsize=8)
def _build_problem(given: str, stamps: tuple[tuple[int, int], ...], own: tuple[Any, ...]) -> Problem:
    return build_object("[problem]", "name", PROBLEMS, json.loads(given))


@lru_cache(maxsize=8)
def _build_network(given: str, agents: int, own: tuple[Any, ...]) -> networks.Network:
    with located("[network]"), blame("the network"):
        return of_table(json.loads(given), agents)


def _own_makers(table: dict[str, Any]) -> tuple[Any, ...]:
    """Return the user's own functions that a table names: another function of the same name builds another object."""
    registries = (PROBLEMS, "name"), (networks.NETWORKS, "name"), (DATASETS, "data")
    return tuple(maker for registry, key in registries for maker in named_own(registry, key, table))


def _absolute_paths(folder: Path, section: Spec | VariantSection) -> dict[str, Any]:
    """Return the problem, the network and the clock of a spec or a variant, with the paths of their files absolute."""
    problem = dict(section.problem)
    for key in PATHS:
        value = problem.get(key)
        if isinstance(value, str) and value not in DATASETS:
            path = folder / value
            # a word that is neither a data set nor a path stays as it is: the error about it should name it
            if os.path.exists(path) or path.suffix or "/" in value:
                problem[key] = os.path.realpath(path)
    found: dict[str, Any] = {"problem": problem}
    if section.network is not None:
        found["network"] = with_absolute_files(section.network, folder)
    if section.clock:
        given = section.clock if isinstance(section.clock, dict) else section.clock.model_dump(exclude_unset=True)
        tables = {
            key: table | {"file": os.path.realpath(folder / table["file"])}
            for key, table in given.items()
            if key in CLOCK_TABLES and isinstance(table, dict) and isinstance(table.get("file"), str)
        }
        clock = section.clock
        found["clock"] = clock | tables if isinstance(clock, dict) else clock.model_copy(update=tables)
    return found


def _stamps(problem: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """Return the times of change and the sizes of the problem's files."""
    files = [file for key in PATHS if isinstance(problem.get(key), str) for file in files_of(problem[key])]
    return tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in files)
