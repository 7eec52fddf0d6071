"""Specs: an experiment as data, read from TOML or made in Python."""

import inspect
import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pydantic
import tomlkit

from gossamer import networks
from gossamer.algorithms import ALGORITHMS
from gossamer.compressors import COMPRESSORS
from gossamer.core import InputError, nearest, parts, ranges
from gossamer.data import DATASETS
from gossamer.engines.simulator import check, planned
from gossamer.fingerprint import made_by
from gossamer.oracles import STAGES, Oracle, exact, minibatch
from gossamer.problems import PROBLEMS, Problem
from gossamer.schedules import SCHEDULES, Schedule
from gossamer.sections import OracleSection, RunSection, Section, TuningSection, VariantSection
from gossamer.store import MADE_BY

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
            MADE_BY: made_by(rule, self.oracle, self.problem, self.network),
        }


class Spec(Section):
    """An experiment. The sections are those of the TOML file; `[[algorithm]]` and `[[variant]]` are lists."""

    title: str = ""
    problem: dict[str, Any]
    network: dict[str, Any]
    oracle: OracleSection = OracleSection()
    run: RunSection
    tuning: TuningSection | None = None
    variant: list[VariantSection] = pydantic.Field(default=[])
    algorithm: list[dict[str, Any]]

    @staticmethod
    def read(path: str | Path) -> "Spec":
        """The spec in a TOML file."""
        path = Path(path)
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path} does not exist. Specs to start from are in the project's examples/.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {error}.") from error
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path} is not TOML: {error}.") from error
        with placed(str(path)):
            return Spec.of(given, path.parent)

    @staticmethod
    def of(given: dict[str, Any], folder: str | Path = ".") -> "Spec":
        """The spec of a dictionary with the same keys as the file; relative paths start at `folder`."""
        with explained(list(Spec.model_fields), ""):
            spec = Spec.model_validate(given)
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
        if len(set(names)) < len(names):
            raise InputError(f"[[variant]] names must differ, but are {', '.join(names)}.")
        found = {}
        for variant in self.variant:
            with placed(f"[[variant]] {variant.name}:"), explained(list(OracleSection.model_fields), "oracle "):
                oracle = OracleSection.model_validate(self.oracle.model_dump() | variant.oracle)
            update = {"problem": self.problem | variant.problem, "network": variant.network or self.network}
            algorithms = [options | variant.algorithm for options in self.algorithm]
            update |= {"oracle": oracle, "algorithm": algorithms, "variant": []}
            found[variant.name] = self.model_copy(update=update)
        return found or {"": self}

    def parts(self) -> Parts:
        """Everything that the spec names, made and checked; no run has begun."""
        problem = _problem(json.dumps(self.problem, sort_keys=True), _stamps(self.problem))
        network = _network(json.dumps(self.network, sort_keys=True), problem.agents)
        with placed("[oracle]"):
            oracle: Oracle = (
                exact() if self.oracle.batch is None else minibatch(self.oracle.batch, replace=self.oracle.replace)
            )
        for number, stage in enumerate(self.oracle.stages):
            oracle = oracle | _made(f"[oracle] stage {number}:", "kind", STAGES, stage)
        algorithms = [self._algorithm(number, given, problem.agents) for number, given in enumerate(self.algorithm)]
        fixed = [ALGORITHMS[name](**hyper) for name, hyper in algorithms if not self.tuning or not left(name, hyper)]
        check(fixed, problem, network, oracle, tuned=len(algorithms) - len(fixed))
        with placed("[run]"):
            planned(self.run.steps, self.run.every, self.run.seeds, self.run.dtype)
        key = {
            "problem": self.problem | {"sha256": getattr(problem, "data_sha256", "")},
            "network": self.network,
            "oracle": self.oracle.model_dump(),
        }
        return Parts(algorithms, problem, network, oracle, key)

    def _algorithm(self, number: int, given: dict[str, Any], agents: int) -> tuple[str, dict[str, Any]]:
        """The name and the hyper-parameters of an algorithm; numbers may be missing if there is a `[tuning]`."""
        where, options = f"[[algorithm]] number {number}:", dict(given)
        name = options.pop("name", None)
        for key, value in options.items():
            if key == "compressor" and isinstance(value, dict):
                options[key] = _made(f"{where} compressor:", "kind", COMPRESSORS, value)
            elif isinstance(value, dict):
                options[key] = self._schedule(f"{where} {key}:", value, agents)
        filled = options
        if self.tuning and name in ALGORITHMS:
            filled = {key: 0.5 for key in ranges(ALGORITHMS[name])} | options
        _made(where, "name", ALGORITHMS, filled | ({} if name is None else {"name": name}))
        return str(name), options

    def _schedule(self, where: str, given: dict[str, Any], agents: int) -> Schedule:
        """A schedule; the number of rounds and of agents are the run's unless they are given."""
        make = SCHEDULES.get(given.get("schedule", ""))
        known = inspect.signature(make).parameters if make else {}
        own = {key: value for key, value in {"steps": self.run.steps, "agents": agents}.items() if key in known}
        return _made(where, "schedule", SCHEDULES, own | given)


def left(name: str, hyper: dict[str, Any]) -> list[str]:
    """The numbers of an algorithm that are left to tuning."""
    return [key for key in ranges(ALGORITHMS[name]) if key not in hyper]


@lru_cache(maxsize=8)
def _problem(given: str, stamps: tuple[tuple[int, int], ...]) -> Problem:
    # cached, because the variants of a study often share it, and data are read and split once
    return _made("[problem]", "name", PROBLEMS, json.loads(given))


@lru_cache(maxsize=8)
def _network(given: str, agents: int) -> networks.Network:
    options = json.loads(given)
    with placed("[network]"):
        return networks.make(options.pop("name", ""), agents, **options)


def _found(problem: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The keys of a problem with its files' paths absolute; names of data sets stay as they are."""
    found = dict(problem)
    for key in PATHS:
        value = problem.get(key)
        if isinstance(value, str) and value not in DATASETS:
            path = folder / value
            found[key] = str(path.resolve()) if path.exists() or path.suffix or "/" in value else value
    return found


def _stamps(problem: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """When the problem's files were last changed, and their sizes."""
    files = [Path(problem[key]) for key in PATHS if isinstance(problem.get(key), str)]
    return tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file())


def _made(where: str, key: str, registry: dict[str, Callable[..., Any]], given: dict[str, Any]) -> Any:
    """What a registry makes of a table: its keys and types are those of the function that it names."""
    options = dict(given)
    name = options.pop(key, None)
    with placed(where):
        if name is None:
            raise InputError(f"{key} is missing. Known: {', '.join(sorted(registry))}.")
        if name not in registry:
            raise InputError(f"{key} = {name!r} is not known; {nearest(str(name), registry)}")
        parameters = inspect.signature(registry[name]).parameters
        fields: dict[str, Any] = {
            option: (value.annotation, ... if value.default is inspect.Parameter.empty else value.default)
            for option, value in parameters.items()
        }
        model = pydantic.create_model(name, __config__=pydantic.ConfigDict(extra="forbid", strict=True), **fields)
        with explained(list(parameters), f"{name}: "):
            model.model_validate(options)
        return registry[name](**options)


def _stored(value: Any) -> Any:
    """A hyper-parameter as the store calls it."""
    return value.asdict() if isinstance(value, Schedule) else value


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Say where bad input stood."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where} {error}") from error.__cause__


@contextmanager
def explained(known: list[str], where: str) -> Iterator[None]:
    """Turn pydantic's errors into ours: which key, what is wrong, what is allowed."""
    try:
        yield
    except pydantic.ValidationError as error:
        # an unknown key first: it is often why another is missing
        found = error.errors(include_url=False)
        first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
        steps = [str(step) for step in first["loc"]] or ["(top)"]
        path = ".".join(steps)
        if first["type"] == "extra_forbidden":
            owner = Spec.model_fields.get(steps[0])
            inner = getattr(owner.annotation, "model_fields", None) if owner and len(steps) > 1 else None
            message = f"key {path!r} is not known; {nearest(steps[-1], inner or known)}"
        elif first["type"] == "missing":
            message = f"key {path!r} is missing. Known: {', '.join(known)}."
        else:
            shown = repr(first["input"])
            shown = shown if len(shown) < 60 else shown[:57] + "…"
            message = f"key {path!r} is {shown}: {first['msg'][0].lower()}{first['msg'][1:]}."
        raise InputError(where + message) from None
