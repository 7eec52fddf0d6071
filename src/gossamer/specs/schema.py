"""The schema of a spec: the keys, types and defaults of its sections, and the doors through which all values come.

`validate` makes sections and `build_object` calls the function that a table names. The functions check the values of
their arguments themselves, because they are called from Python as well.
"""

import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import pydantic
from pydantic_core import PydanticCustomError

from gossamer.basics.wishes import wish
from gossamer.core import LARGEST_INT, InputError, brief, nearest
from gossamer.engines.blame import blame
from gossamer.metrics import select_metrics, targets

FIRST_SEED = 1_000_000
"""The first tuning seed: the seeds of the final runs lie below it."""

WIDEST = 100_000
"""The most settings, or seeds, that a compiled block or a grid may hold."""

STEP_SIZES = (1e-30, 1e30)
"""The step sizes that tuning may span: float32 overflows soon after them."""

DEEPEST = 20
"""The most lists and tables inside each other."""

LARGEST_WHOLE = 2**63 - 1
"""The largest whole number that TOML promises to hold."""

NOT_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that UTF-8 or the names of files cannot hold."""

S = TypeVar("S", bound="Section")


class Section(pydantic.BaseModel):
    # strict, because TOML has types: "3" is no number, and 1 is not true
    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any) -> Any:
        """Refuse a wrong key before anything else: an unknown key is often the reason why another is missing."""
        required = {name: field.is_required() for name, field in cls.model_fields.items()}
        if isinstance(given, dict) and (wrong := find_wrong_key(given, required)):
            raise PydanticCustomError("key", "{said}", {"key": wrong[0], "said": wrong[1]})
        return given


class OracleSection(Section):
    batch: int | None = None
    replace: bool = True
    stages: list[dict[str, Any]] = []


class RunSection(Section):
    steps: int
    every: int | list[int] | None = None
    seeds: int | list[int] = 1
    dtype: Literal["float32", "float64"] = "float32"
    together: int = pydantic.Field(default=1, ge=1, le=WIDEST)
    """Settings in one compiled block."""
    seeds_together: int | None = pydantic.Field(default=None, ge=1, le=WIDEST)
    """Seeds in one compiled block; all of them if it is not given."""
    settle: int | None = pydantic.Field(default=None, ge=1, le=LARGEST_INT)
    """Runs go on, twice as long each time, until ‖∇F‖² has settled, but never beyond this many rounds."""
    until: dict[str, float] | None = None
    """A run ends where it is measured and all these metrics are at their value or better."""
    apart: list[float] | None = None
    """Agents start apart: to each coordinate a number is added that is drawn between these two, anew for each seed."""
    equal: Literal["rounds", "queries", "bytes", "seconds", "joules"] = "rounds"
    """Every method runs, and is tuned, until it has paid what the cheapest of them pays in `steps` rounds."""


class ClockSection(Section):
    """The times of computing and of messages; see `gossamer.clock`."""

    links: str | dict[str, Any] = "internet"
    compute: float | dict[str, Any] = 1e-3
    slow: dict[str, Any] | None = None
    reduce: str = "ring"
    server: int = 0
    outages: dict[str, Any] | None = None
    seeds: int = 10
    seed: int = 0
    energy: dict[str, Any] | None = None


class TuningSection(Section):
    """The choice of the hyper-parameters that an `[[algorithm]]` leaves out.

    Any other key names a hyper-parameter, such as ``lam = [0.03, 1.0]``: the lowest and the highest value, or, of a
    grid and of whole numbers, all values to try.
    """

    eta: list[float]
    """The lowest and the highest step size to begin with."""
    grids: dict[str, list[int | pydantic.FiniteFloat]] = {}
    """The values of other hyper-parameters, in place of those that their annotations name."""
    sampler: Literal["design", "grid", "optuna"] = "design"
    """The way to choose settings; see `gossamer.experiments.samplers`."""
    budget: int = pydantic.Field(default=32, ge=4, le=WIDEST)
    """Settings that are tried, the same number for every algorithm."""
    refine: bool = False
    """Of a grid: the last third of the budget lies between the best setting and its neighbours."""
    margin: float = pydantic.Field(default=0.1, gt=0, allow_inf_nan=False)
    """An optimum is hardly resolved if the criterion differs by more than this share at its nearest neighbours."""
    safety: float = pydantic.Field(default=1.0, ge=1, le=100)
    """A setting is not chosen where a step size larger by at most this factor diverged or missed the target."""
    criterion: str = "loss"
    """A metric that is measured along a run, one's own too, or rounds."""
    target: float | None = pydantic.Field(default=None, allow_inf_nan=False)
    """The loss to reach for good, where the criterion is rounds."""
    until: dict[str, float] | None = None
    """Metrics and the values to reach for the first time, where the criterion is rounds: runs end there."""
    steps: int | None = pydantic.Field(default=None, ge=1, le=LARGEST_INT)
    seeds: int = pydantic.Field(default=2, ge=1, le=WIDEST)
    """Tuning seeds of each replicate."""
    replicates: int = pydantic.Field(default=1, ge=1, le=WIDEST)
    """The number of independent tunings; the seeds of the run are dealt to them in order, equally many to each."""
    first_seed: int = pydantic.Field(default=FIRST_SEED, ge=FIRST_SEED, le=LARGEST_INT - WIDEST)
    """The first tuning seed."""
    together: int = pydantic.Field(default=16, ge=1, le=WIDEST)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _collect_grids(cls, given: Any) -> Any:
        """Collect lists under other keys as values of hyper-parameters, whose names `Setup.check` checks."""
        if not isinstance(given, dict) or not isinstance(grids := given.get("grids", {}), dict):
            return given
        named = {key: value for key, value in given.items() if key not in cls.model_fields and isinstance(value, list)}
        rest = {key: value for key, value in given.items() if key not in named}
        return rest | ({"grids": grids | named} if named else {})

    @pydantic.model_validator(mode="after")
    def _check_together(self) -> "TuningSection":
        low, high = STEP_SIZES
        if len(self.eta) != 2 or not 0 < self.eta[0] < self.eta[1] < math.inf:
            raise ValueError(f"eta must be [lowest, highest] with 0 < lowest < highest, but is {self.eta}")
        if self.eta[0] < low or self.eta[1] > high:
            raise ValueError(f"eta must lie between {low:g} and {high:g}, but is {self.eta}")
        if self.sampler != "grid" and self.eta[1] < 1.01 * self.eta[0]:
            raise ValueError(f"eta must span 1 % at least, but is {self.eta}: give the number in [[algorithm]]")
        if self.sampler != "grid" and (self.refine or self.safety > 1):
            key = "refine" if self.refine else "safety"
            raise ValueError(f'{key} is for sampler = "grid" only: leave it out, or take that sampler')
        for name, values in self.grids.items():
            if not values or len(set(values)) < len(values):
                raise ValueError(f"the values of {name} must be at least one, all different, but are {values}")
        known = [*(metric.name for metric in select_metrics()), "rounds"]
        if self.criterion not in known:
            raise ValueError(f"criterion is {self.criterion!r}, which is not known; {nearest(self.criterion, known)}")
        ends = (self.target is not None) + (self.until is not None)
        if ends != (self.criterion == "rounds"):
            raise ValueError('criterion = "rounds" needs one of target and until; no other criterion has them')
        targets(self.until)
        return self

    @property
    def stages(self) -> list[int]:
        """The numbers of settings that are tried one after the other, the same for every algorithm."""
        if self.sampler == "grid":
            return [self.budget - self.budget // 3, self.budget // 3] if self.refine else [self.budget]
        # fewer than six points say too little of where to go on
        later = self.budget - max(self.budget // 3, min(6, self.budget // 2 + 1))
        parts = min(4, later)
        ends = [later * k // parts for k in range(parts + 1)]
        return [self.budget - later, *(end - begin for begin, end in itertools.pairwise(ends))]


class VerdictSection(Section):
    """The terms of verdicts between methods, stated before the run; they change no number."""

    metric: str | None = None
    """A metric that is measured along the runs; that of the tuning, or else the loss, unless given."""
    matters: float | None = pydantic.Field(default=None, gt=0, le=1)
    """The smallest difference that matters, as a share."""

    @pydantic.field_validator("metric")
    @classmethod
    def _check_metric(cls, metric: str | None) -> str | None:
        known = [one.name for one in select_metrics()]
        if metric is not None and metric not in known:
            raise ValueError(f"no metric {metric!r} is measured along a run; {nearest(metric, known)}")
        return metric


class VariantSection(Section):
    """A variant of a study: another network, and other values for keys of the sections and of all algorithms."""

    name: str = pydantic.Field(min_length=1)
    problem: dict[str, Any] = {}
    network: dict[str, Any] | None = None
    oracle: dict[str, Any] = {}
    run: dict[str, Any] = {}
    clock: dict[str, Any] = {}
    tuning: dict[str, Any] = {}
    algorithm: dict[str, Any] = {}
    only: list[str] = []
    """The names of the algorithms that run in this variant; all of them unless given."""


def find_wrong_key(
    given: Mapping[str, Any], required: Mapping[str, bool], otherwise: str = ""
) -> tuple[str, str] | None:
    """Return a key that is not known, or else one that is missing, and the words about it; None if all is well.

    `required` has all known keys. `otherwise` is the advice for a missing key, other than to give it.
    """
    for key in given:
        if key not in required:
            return key, f"is not known; {nearest(key, required)}"
    for key, needed in required.items():
        if needed and key not in given:
            way = f"; give it, or {otherwise}" if otherwise else ""
            return key, f"is missing{way}. Known: {', '.join(required)}."
    return None


def plain(value: Any, where: str = "", depth: int = 0) -> Any:
    """Return a copy of what TOML can say: text, numbers, true and false, and lists and tables of them.

    A key whose value is None is left out, since TOML has no such value. Anything else raises InputError.
    """
    match value:
        case bool() | float():
            return value
        case int() if abs(value) <= LARGEST_WHOLE:
            return value
        case str() if not NOT_TEXT.search(value):
            return value
        case list() | tuple() if depth < DEEPEST:
            return [plain(inner, f"{where}.{k}", depth + 1) for k, inner in enumerate(value)]
        case dict() if depth < DEEPEST and all([isinstance(key, str) and not NOT_TEXT.search(key) for key in value]):
            inside = f"{where}." if where else ""
            given = [(key, inner) for key, inner in value.items() if inner is not None]
            return {key: plain(inner, inside + key, depth + 1) for key, inner in given}
    raise InputError(
        f"key {where!r} is {brief(value)}, of the type {type(value).__name__}, but a spec holds text without zero "
        "bytes, numbers (whole ones of at most 64 bits), true, false, and lists and tables of them that nest at most "
        f"{DEEPEST} deep, with keys that are text."
    )


def validate(model: type[S], given: Mapping[str, Any], where: str = "") -> S:
    """Return the section of a table. An InputError names the first wrong key, what is wrong, and what is allowed."""
    return validate_plain(model, plain(dict(given)), where)


def validate_plain(model: type[S], tables: dict[str, Any], where: str = "") -> S:
    """Return the section of a table that `plain` has copied."""
    try:
        return model.model_validate(tables)
    except pydantic.ValidationError as error:
        raise InputError(where + _explain(error.errors(include_url=False), tables)) from None


def _explain(errors: list[Any], given: Any) -> str:
    """Return the first of pydantic's errors in words of our own: the key, its value, and what it must be."""
    places = []
    for error in errors:
        place, inside = [], given
        for step in error["loc"]:  # pydantic's names of types stand between the keys
            known: Any = (
                inside if isinstance(inside, dict) else dict(enumerate(inside)) if isinstance(inside, list) else {}
            )
            if step in known:
                place.append(str(step))
                inside = known[step]
        places.append(place)
    path = places[0]
    if errors[0]["type"] == "key":
        context = errors[0]["ctx"]
        return f"key {'.'.join([*path, context['key']])!r} {context['said']}"
    # a value of several possible types has an error for each; the one inside a list says most
    path = max((place for place in places if place[: len(path)] == path), key=len)
    own = [error for error, place in zip(errors, places, strict=True) if place == path]
    key, value = ".".join(path), own[0]["input"]
    if own[0]["type"] == "value_error":
        wrong = str(own[0]["ctx"]["error"]).rstrip(".")
        return f"[{key}] {wrong}." if isinstance(value, dict) and key else f"key {key!r}: {wrong}." if key else wrong
    if own[0]["type"] == "literal_error":
        known = re.findall("'([^']*)'", own[0]["ctx"]["expected"])
        return f"key {key!r} is {brief(value)}, which is not known; {nearest(value, known)}"
    wishes = " or ".join(dict.fromkeys(map(wish, own)))
    if key in ("algorithm", "variant") and own[0]["type"] == "list_type":
        wishes = f"a list of tables, each under [[{key}]] with two brackets"
    unquoted = isinstance(value, str) and {one["type"] for one in own} <= {"int_type", "float_type", "bool_type"}
    return f"key {key!r} must be {wishes}{' without quotation marks' * unquoted}, but is {brief(value)}."


def build_object(
    where: str, key: str, registry: Mapping[str, Callable[..., Any]], given: dict[str, Any], otherwise: str = ""
) -> Any:
    """Return the object of a table: `key` names a function of the registry, the other keys are its arguments."""
    options = dict(given)
    name = options.pop(key, None)
    with errors_at(where):
        if name is None:
            raise InputError(f"{key} is missing. Known: {', '.join(sorted(registry))}.")
        if not isinstance(name, str) or name not in registry:
            hint = nearest(name, registry, "bring the file that defines it by --with FILE")
            raise InputError(f"{key} = {brief(name)} is not known; {hint}")
        make = registry[name]
        parameters = inspect.signature(make).parameters.values()
        required = {parameter.name: parameter.default is parameter.empty for parameter in parameters}
        if wrong := find_wrong_key(options, required, otherwise):
            raise InputError(f"{name}: key {wrong[0]!r} {wrong[1]}")
        try:
            with blame(name):
                return make(**options)
        except InputError:
            raise
        except (TypeError, ValueError) as error:  # a value of a type that the function does not expect
            raise InputError(f"{name}: it cannot be made of {brief(options)}: {error}.") from error


def build_parts(where: str, given: dict[str, Any], registries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with the tables of its parts, such as a compressor, built."""
    built = {}
    for key in registries.keys() & given.keys():
        if not isinstance(given[key], dict):
            raise InputError(f'{where} {key} must be a table, {{ kind = "…" }}, but is {brief(given[key])}.')
        built[key] = build_object(f"{where} {key}:", "kind", registries[key], given[key])
    return given | built


@contextmanager
def errors_at(where: str) -> Iterator[None]:
    """Put the place of bad input in front of its error."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where} {error}") from error.__cause__
