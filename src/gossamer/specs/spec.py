"""Specs: an experiment as data, read from TOML or made in Python."""

import inspect
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import tomlkit

from gossamer import networks
from gossamer.aggregators import AGGREGATORS
from gossamer.algorithms import ALGORITHMS
from gossamer.basics.tabulate import check_schedules
from gossamer.clocks import COMPUTE, LINKS, Clock, clock
from gossamer.compressors import COMPRESSORS
from gossamer.core import InputError, brief, nearest
from gossamer.data import DATASETS
from gossamer.data.files import files_of
from gossamer.engines.blame import blame
from gossamer.engines.simulator import apply_clock, plan_run
from gossamer.networks import NETWORKS
from gossamer.networks.files import digests_of, resolve_files
from gossamer.networks.registry import of_table
from gossamer.oracles import STAGES, Oracle, exact, minibatch
from gossamer.problems import PROBLEMS, Problem
from gossamer.schedules import SCHEDULES
from gossamer.specs.schema import (
    ClockSection,
    OracleSection,
    RunSection,
    Section,
    TuningSection,
    VariantSection,
    VerdictSection,
    build_object,
    build_parts,
    errors_at,
    plain,
    validate,
    validate_plain,
)
from gossamer.specs.setup import Candidate, Setup

T = TypeVar("T")

PATHS = ("data", "test")
"""Keys of a problem that may be files, found from the spec's own directory."""

CLOCK_TABLES = {"links": LINKS, "compute": COMPUTE}
"""Keys of `[clock]` that may be tables, and the registry of each."""

PART_REGISTRIES = {"compressor": COMPRESSORS, "aggregator": AGGREGATORS}
"""The parts that a table of an algorithm or of an oracle stage may hold, and the registry of each."""

OWN_REGISTRIES: dict[str, tuple[Any, ...]] = {
    "name": (PROBLEMS, NETWORKS),
    "data": (DATASETS,),
    "kind": (STAGES, *PART_REGISTRIES.values()),
}
"""The keys of tables that may name a user's own function, and where that is registered."""


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
    verdict: VerdictSection = VerdictSection()
    variant: list[VariantSection] = pydantic.Field(default=[])
    algorithm: list[dict[str, Any]]

    @staticmethod
    def read(path: str | Path) -> "Spec":
        """Read the spec in a TOML file."""
        try:
            given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path} does not exist. `gossamer init` writes one to start from.") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from error
        except (TypeError, ValueError, RecursionError) as error:
            shown = path if isinstance(path, (str, Path)) else brief(path)
            raise InputError(f"{shown} is not TOML: {error}.") from error
        with errors_at(str(path)):
            return Spec.of(given, Path(path).parent)

    @staticmethod
    def of(given: dict[str, Any], folder: str | Path = ".") -> "Spec":
        """Return the spec of a dictionary with the same keys as the file; relative paths start at `folder`."""
        if not isinstance(given, Mapping):
            raise InputError(f"a spec is a dictionary with the keys of the file, but this is {brief(given)}.")
        tables, folder = plain(dict(given)), Path(folder)
        variants = tables.get("variant")
        for section in (tables, *(variants if isinstance(variants, list) else ())):
            # paths become absolute; a section that is no table is refused later, by the schema
            inner = (
                {key: value for key, value in section.items() if isinstance(value, dict)}
                if isinstance(section, dict)
                else {}
            )
            problem = inner.get("problem", {})
            for key in PATHS:
                value = problem.get(key)
                if isinstance(value, str) and value not in DATASETS:
                    path = folder / value
                    # a word that is neither a data set nor a path stays as it is: the error about it should name it
                    if os.path.exists(path) or path.suffix or "/" in value:
                        problem[key] = os.path.realpath(path)
            if "network" in inner:
                section["network"] = resolve_files(inner["network"], folder)
            for key in CLOCK_TABLES:
                table = inner.get("clock", {}).get(key)
                if isinstance(table, dict) and isinstance(table.get("file"), str):
                    table["file"] = os.path.realpath(folder / table["file"])
        spec = validate_plain(Spec, tables)
        spec.variants()  # a wrong key of a variant is refused when the spec is read
        return spec

    def toml(self) -> str:
        """Return the spec as TOML, with every path absolute and without the defaults that were left out."""
        return tomlkit.dumps(self.model_dump(exclude_unset=True, exclude_none=True))

    def variants(self) -> dict[str, "Spec"]:
        """Return the spec of each variant, without variants of its own; without any, this spec under ""."""
        names = [variant.name for variant in self.variant]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"[[variant]] names must differ, but {names.count(twice)} are {brief(twice)}.")
        specs = {}
        for variant in self.variant:
            with errors_at(f"[[variant]] {brief(variant.name)}:"):
                if variant.clock and self.clock is None:
                    raise InputError('it changes [clock], but the spec has none: add one, such as links = "internet".')
                if variant.tuning and self.tuning is None:
                    raise InputError(
                        "it changes [tuning], but the spec has none: add one with eta = [lowest, highest]."
                    )
                names = [options.get("name") for options in self.algorithm]
                if (missing := next((name for name in variant.only if name not in names), None)) is not None:
                    raise InputError(
                        f"only = … names {brief(missing)}, which is no [[algorithm]] here; "
                        f"{nearest(missing, map(str, names))}"
                    )
                kept = [
                    options for options in self.algorithm if not variant.only or options.get("name") in variant.only
                ]
                update: dict[str, Any] = {
                    "problem": self.problem | variant.problem,
                    "network": self.network if variant.network is None else variant.network,
                    "algorithm": [options | variant.algorithm for options in kept],
                    "variant": [],
                }
                for key in ("oracle", "run", "clock", "tuning"):
                    section, changes = getattr(self, key), getattr(variant, key)
                    if changes:
                        # without defaults, so that a stored spec has only the keys that were given
                        changed = section.model_dump(exclude_unset=True) | changes
                        update[key] = validate(type(section), changed, f"{key} ")
            specs[variant.name] = self.model_copy(update=update)
        return specs or {"": self}

    def each(self, make: Callable[["Spec"], T]) -> dict[str, T]:
        """Apply `make` to the spec of each variant. Errors name the variant."""
        results = {}
        for variant, spec in self.variants().items():
            with errors_at(f"[[variant]] {brief(variant)}:") if variant else nullcontext():
                results[variant] = make(spec)
        return results

    def parts(self) -> Setup:
        """Build and check everything that the spec names. No run begins."""
        of_problem, of_network = tuple(find_own(self.problem)), tuple(find_own(self.network))
        # as JSON with sorted keys, because the arguments of a cached function must be hashable and equal
        files = [
            file for key in PATHS if isinstance(self.problem.get(key), str) for file in files_of(self.problem[key])
        ]
        stamps = tuple([(file.stat().st_mtime_ns, file.stat().st_size) for file in files])
        problem = _build_problem(json.dumps(self.problem, sort_keys=True), stamps, of_problem)
        with errors_at("[network]"):
            digests = digests_of(self.network)
        clock = self.build_clock()
        closing = clock if "deadline" in self.network else None  # all else does not depend on the clock
        text = json.dumps(self.network, sort_keys=True)
        network = _build_network(text, problem.agents, problem.agent_names, closing, (*of_network, *digests))
        with errors_at("[clock]"):
            clock, network = apply_clock(clock, network)
        run, batch = self.run, self.oracle.batch
        with errors_at("[oracle]"):
            oracle: Oracle = exact() if batch is None else minibatch(batch, replace=self.oracle.replace)
        for number, given in enumerate(self.oracle.stages, start=1):
            where = f"[oracle] stage {number}:"
            stage = build_object(where, "kind", STAGES, build_parts(where, given, PART_REGISTRIES))
            with errors_at(where):
                oracle = oracle | stage
        with errors_at("[run]"):
            plan, seeds = plan_run(run.steps, run.every, run.seeds, run.dtype, run.until, run.apart)
        candidates = [
            self._build_candidate(f"[[algorithm]] number {number}:", given, problem.agents)
            for number, given in enumerate(self.algorithm, start=1)
        ]
        key = {
            "problem": self.problem | {"sha256": getattr(problem, "data_sha256", "")},
            "network": self.network
            | ({"sha256": digests} if digests else {})
            | ({"clock": closing.mark} if closing is not None else {}),
            "oracle": self.oracle.model_dump(),
        }
        own = tuple(dict.fromkeys([*of_problem, *of_network, *find_own([self.oracle.stages, self.algorithm])]))
        made_of = candidates, problem, network, oracle
        setup = Setup(*made_of, plan, seeds, run, self.tuning, clock, key, own)
        setup.check()
        return setup

    def build_clock(self) -> Clock | None:
        """Return the clock, if the spec has one."""
        if self.clock is None:
            return None
        given = self.clock.model_dump()
        for key, registry in CLOCK_TABLES.items():
            if isinstance(given[key], dict):
                given[key] = build_object(f"[clock] {key}:", "kind", registry, given[key])
        with errors_at("[clock]"):
            return clock(**given)

    def _build_candidate(self, where: str, given: dict[str, Any], agents: int) -> Candidate:
        """Return the candidate of an `[[algorithm]]`. With a `[tuning]`, numbers may be missing."""
        options = build_parts(where, given, PART_REGISTRIES)
        for key, value in options.items():
            if isinstance(value, dict):
                # the rounds and the agents of a schedule are those of the run unless they are given
                make = SCHEDULES.get(str(value.get("schedule")))
                known = inspect.signature(make).parameters if make else {}
                rounds = [("steps", self.run.steps)] * (self.run.equal == "rounds")  # else methods differ in theirs
                own = {name: one for name, one in (*rounds, ("agents", agents)) if name in known}
                options[key] = build_object(f"{where} {key}:", "schedule", SCHEDULES, own | value)
            elif isinstance(value, list) and key != "name":
                raise InputError(
                    f"{where} {key} must be one value, but is {brief(value)}. To try several, give [[algorithm]] once "
                    "for each, or leave it out and add [tuning], which chooses."
                )
        whole, name = options, given.get("name")
        fixed = {key: value for key, value in options.items() if key != "name"}
        if self.tuning and isinstance(name, str) and name in ALGORITHMS:
            left_open = Candidate(ALGORITHMS[name], fixed).open
            whole = {key: allowed.example for key, allowed in left_open.items()} | options
        otherwise = "" if self.tuning else "add a [tuning] that chooses it"
        rule = build_object(where, "name", ALGORITHMS, whole, otherwise)
        with errors_at(where):
            check_schedules([rule], max(self.run.settle or self.run.steps, (self.tuning and self.tuning.steps) or 0))
        return Candidate(type(rule), fixed)


# cached, because the variants of a study often share a problem, whose data are then read and split once; the stamps of
# files and the user's own functions are part of the key
@lru_cache(maxsize=8)
def _build_problem(given: str, stamps: tuple[tuple[int, int], ...], own: tuple[Any, ...]) -> Problem:
    return build_object("[problem]", "name", PROBLEMS, json.loads(given))


@lru_cache(maxsize=8)
def _build_network(
    given: str, agents: int, names: tuple[str, ...] | None, clock: Clock | None, own: tuple[Any, ...]
) -> networks.Network:
    with errors_at("[network]"), blame("the network"):
        return of_table(json.loads(given), agents, names, clock)


def find_own(tables: Any) -> Iterator[Callable[..., Any]]:
    """Yield the user's own functions that tables, or tables inside them, name.

    Another function of the same name builds another object.
    """
    if isinstance(tables, dict):
        for key, registries in OWN_REGISTRIES.items():
            name = tables.get(key)
            for registry in registries:
                if isinstance(name, str) and name in registry and (maker := registry.own(name)) is not None:
                    yield maker
        tables = list(tables.values())
    if isinstance(tables, list):
        for table in tables:
            yield from find_own(table)
