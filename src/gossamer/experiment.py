"""Experiments as data: a frozen spec, read from TOML or made in Python, and what comes of running it."""

import inspect
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pydantic
import tomlkit

from gossamer import networks
from gossamer.algorithms import ALGORITHMS
from gossamer.core import InputError, nearest
from gossamer.data import DATASETS
from gossamer.engines import simulate
from gossamer.engines.simulator import check, planned
from gossamer.oracles import STAGES, Oracle, exact, minibatch
from gossamer.problems import PROBLEMS, Problem
from gossamer.progress import Report
from gossamer.results import Result, atomic

PATHS = ("data", "test")
"""Keys of a problem that may be files, found from the spec's own directory."""


class Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)


class OracleSection(Section):
    batch: int | None = None
    replace: bool = True
    stages: list[dict[str, Any]] = []


class RunSection(Section):
    steps: int
    every: int | None = None
    seeds: int | list[int] = 1
    dtype: Literal["float32", "float64"] = "float32"


class Parts(NamedTuple):
    """What a spec describes, made and checked."""

    rules: list[Any]
    problem: Problem
    network: networks.Network
    oracle: Oracle


class Spec(Section):
    """An experiment. The sections are those of the TOML file; `[[algorithm]]` is a list."""

    problem: dict[str, Any]
    network: dict[str, Any]
    oracle: OracleSection = OracleSection()
    run: RunSection
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
        found = {key: _found(spec.problem[key], Path(folder)) for key in PATHS if key in spec.problem}
        return spec.model_copy(update={"problem": spec.problem | found})

    def toml(self) -> str:
        """The spec as TOML, with every path absolute and every default that was left out still left out."""
        return tomlkit.dumps(self.model_dump(exclude_unset=True))

    def parts(self) -> Parts:
        """Everything that the spec names, made and checked; no run has begun."""
        problem = _made("[problem]", "name", PROBLEMS, self.problem)
        options = dict(self.network)
        with placed("[network]"):
            network = networks.make(options.pop("name", ""), problem.agents, **options)
        with placed("[oracle]"):
            oracle: Oracle = (
                exact() if self.oracle.batch is None else minibatch(self.oracle.batch, replace=self.oracle.replace)
            )
        for number, stage in enumerate(self.oracle.stages):
            oracle = oracle | _made(f"[oracle] stage {number}:", "kind", STAGES, stage)
        rules = [
            _made(f"[[algorithm]] number {number}:", "name", ALGORITHMS, options)
            for number, options in enumerate(self.algorithm)
        ]
        check(rules, problem, network, oracle)
        with placed("[run]"):
            planned(**self.run.model_dump())
        return Parts(rules, problem, network, oracle)


def run(spec: Spec, out: str | Path | None = None, *, progress: bool | Report = True) -> Result:
    """Run a spec. With `out`, in a directory: each algorithm is saved when it is done, so that the same call after an
    interruption goes on with the next, and after the end only reads."""
    parts = spec.parts()
    options = spec.run.model_dump()
    if out is None:
        return simulate(*parts, **options, progress=progress)
    folder = Path(out)
    if (folder / "manifest.json").is_file():
        _same(spec, folder)
        return _with_same_data(Result.load(folder), parts.problem, folder)
    _claim(spec, folder)
    try:
        results = [_cell(folder / "cells", rule, parts, options, progress) for rule in parts.rules]
        whole = Result.joined(results)
        whole.write_into(folder)
        shutil.rmtree(folder / "cells")
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error
    return Result.load(folder)


def _cell(cells: Path, rule: Any, parts: Parts, options: dict[str, Any], progress: bool | Report) -> Result:
    """One algorithm: read if it was finished before, else run and saved."""
    folder = cells / f"{parts.rules.index(rule):03d}-{rule.name}"
    if folder.exists():
        return _with_same_data(Result.load(folder), parts.problem, folder)
    result = simulate(rule, parts.problem, parts.network, parts.oracle, **options, progress=progress)
    result.save(folder)
    return result


def _claim(spec: Spec, folder: Path) -> None:
    """Make the directory this run's, or see that it already is."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; --out is a directory.")
    if (folder / "spec.toml").is_file():
        return _same(spec, folder)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no run: choose another directory.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic(folder / "spec.toml") as part:
            part.write_text(spec.toml(), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error


def _same(spec: Spec, folder: Path) -> None:
    stored = (folder / "spec.toml").read_text(encoding="utf-8")
    if stored != spec.toml():
        raise InputError(
            f"{folder} holds another run (its spec.toml differs from yours): choose another --out, or remove it."
        )


def _with_same_data(result: Result, problem: Problem, folder: Path) -> Result:
    if (result.manifest["data"] or {}).get("sha256") != getattr(problem, "data_sha256", None):
        raise InputError(f"{folder} was made with other data: the data file has changed. Choose another --out.")
    return result


def _found(value: Any, folder: Path) -> Any:
    """A path from the spec's directory, absolute; a dataset's name as it is."""
    if not isinstance(value, str) or value in DATASETS:
        return value
    path = folder / value
    return str(path.resolve()) if path.exists() or path.suffix or "/" in value else value


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
