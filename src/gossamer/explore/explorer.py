"""Answers for the page of `gossamer explore`: a spec with other numbers, its runs, and the theory of them.

An answer is made of a spec by the engine of `gossamer run`, with one seed. The page offers that spec as a file, so that
a run of the file gives the same numbers.
"""

import copy
import inspect
import json
import math
import threading
import time
from typing import Any

import jax
import numpy as np
import polars as pl
import pydantic

from gossamer.algorithms import ALGORITHMS
from gossamer.basics.text import SYMBOLS, format_number
from gossamer.core import InputError, Range, Whole, brief, hyperparameters, parts
from gossamer.engines.runs import Row, compute
from gossamer.experiments.running import build_setup, edges_of
from gossamer.metrics import labels, select_metrics
from gossamer.networks import NETWORKS
from gossamer.report.drawings import LIMIT, draw_network
from gossamer.report.names import display_name
from gossamer.report.styles import style_methods
from gossamer.results.result import runs_frame
from gossamer.results.store import NullStore
from gossamer.specs.schema import Section, validate
from gossamer.specs.setup import Candidate, Setup
from gossamer.specs.spec import Spec
from gossamer.theory import Constants, conditions, eta_limit, step_limit
from gossamer.theory.constants import gap_of

DEFAULT = {
    "title": "a9a on a ring of 20",
    "problem": {"name": "logistic", "data": "a9a", "agents": 20, "split": "by-label", "alpha": 0.01},
    "network": {"name": "ring"},
    "oracle": {"batch": 64, "stages": [{"kind": "additive-bias", "mean": 0.002, "std": 0.005, "redraw": False}]},
    "run": {"steps": 2000},
    "algorithm": [{"name": "biased-dmt", "eta": 0.1, "lam": 0.05}, {"name": "d-psgd", "eta": 0.02}],
}
"""The spec of a page that was given none: the problem of the README."""

MOST_METHODS = 8
KEPT = 200
"""Methods whose runs are kept: a slider that goes back is answered at once."""

SHARES = {"iid": 0.0, "by-label": 1.0}
"""The splits that are ends of `mixed:S`."""

MOVED = (Range, Whole)
"""The kinds of hyper-parameters that have a slider."""

BIAS = "additive-bias"
TRACKERS = {"biased-dmt": lambda rule: rule.lam, "gnsd": lambda rule: 1.0}
"""The methods whose stable step sizes the theory knows, and the λ of each."""

UNEXPLORED = {
    "variant": "write the values of one variant into the sections",
    "tuning": "give every [[algorithm]] its numbers, from which the sliders start",
    "clock": "leave it out, since the page counts rounds",
}
"""Sections of a spec that no slider can stand for, and the way out."""


class Superseded(Exception):
    """The page has asked for something newer."""


class Request(Section):
    """A request of the page: the positions of its controls."""

    page: str = pydantic.Field(max_length=60)
    number: int = pydantic.Field(ge=0)
    """The count of this page's requests: the largest is answered, and those below it are dropped."""
    network: str
    agents: int | None = pydantic.Field(default=None, ge=2, le=LIMIT)
    heterogeneity: float | None = pydantic.Field(default=None, ge=0, le=1, allow_inf_nan=False)
    bias: float | None = pydantic.Field(default=None, allow_inf_nan=False)
    algorithm: list[dict[str, Any]]

    @pydantic.field_validator("algorithm")
    @classmethod
    def _check_count(cls, tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not 1 <= len(tables) <= MOST_METHODS:
            raise ValueError(f"{len(tables)} methods cannot be shown: choose 1 to {MOST_METHODS}")
        return tables


class CompileCounter:
    """Counts the programs that JAX compiles, or reads from its cache, in this process."""

    def __init__(self) -> None:
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._note)

    def _note(self, event: str, duration_secs: float, **_: Any) -> None:
        self.count += event == "/jax/core/compile/backend_compile_duration"


class Explorer:
    """A spec that can be moved. It runs one question at a time, and may be asked by any thread."""

    def __init__(self, spec: Spec):
        """Raise InputError for a spec that cannot run, or that sliders cannot stand for."""
        for section, way in UNEXPLORED.items():
            if getattr(spec, section):
                raise InputError(f"a page has no controls for [{section}]: {way}.")
        for key in ("settle", "until", "equal"):
            if getattr(spec.run, key) not in (None, "rounds"):
                raise InputError(
                    f"[run] {key} makes runs of different lengths: leave it out, as a page shows all rounds."
                )
        if len(spec.algorithm) > MOST_METHODS:
            raise InputError(f"{len(spec.algorithm)} methods are more than a page shows: keep {MOST_METHODS} at most.")
        setup = build_setup(spec)  # refuses what cannot run
        if not 2 <= setup.problem.agents <= LIMIT:
            raise InputError(
                f"a page shows 2 to {LIMIT} agents, but the problem has {setup.problem.agents}: change the number."
            )
        tables = spec.model_dump(exclude_unset=True)
        run = {key: tables["run"][key] for key in ("steps", "every", "dtype", "apart") if key in tables["run"]}
        self.base = {key: value for key, value in tables.items() if key not in ("experiment", "variant")}
        self.base["run"] = run | {"seeds": setup.seeds[:1]}
        self.compiled = CompileCounter()
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}
        self._shown: dict[str, dict[str, Any]] = {}
        self._stable: dict[str, float] = {}

    # --- what the page begins with ------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Return the controls of the page and where they stand."""
        problem, oracle, run = self.base["problem"], self.base.get("oracle", {}), self.base["run"]
        stage = _find_bias(oracle)
        # networks that need no option
        values = {name: inspect.signature(make).parameters.values() for name, make in NETWORKS.items()}
        known = [
            name for name, own in values.items() if all(v.name == "agents" or v.default is not v.empty for v in own)
        ]
        networks = list(dict.fromkeys([self.base["network"].get("name", ""), *sorted(known)]))
        eta = next((one["eta"] for one in self.base["algorithm"] if isinstance(one.get("eta"), float)), 0.1)
        others = []  # methods that the spec does not have, whose numbers a user then moves
        for name, kind in sorted(ALGORITHMS.items()):
            if not parts(kind):
                left_open = Candidate(kind, {}).open
                numbers = {key: eta if one.step else one.example for key, one in left_open.items()}
                others.append(self._controls({"name": name} | numbers))
        return {
            "title": self.base.get("title") or "An experiment",
            "steps": run["steps"],
            "seed": run["seeds"][0],
            "problem": ", ".join(str(problem[key]) for key in ("name", "data") if key in problem),
            "networks": networks,
            "agents": problem.get("agents"),
            "most_agents": LIMIT,
            "heterogeneity": _share_of(problem),
            "bias": None if stage is None else float(stage.get("mean", 0.0)),
            "metrics": [{"key": one.name, "title": one.label.text, "log": one.label.log} for one in select_metrics()],
            "methods": [self._controls(table) for table in self.base["algorithm"]],
            "others": others,
        }

    def _controls(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return a method, its table of the spec, and the numbers in it that a slider moves."""
        known = hyperparameters(ALGORITHMS[table["name"]])
        # a schedule and the start of a tracker stay as they are
        moved = [key for key, value in table.items() if type(value) in (int, float) and type(known.get(key)) in MOVED]
        sliders = [_slider(key, known[key], table[key]) for key in moved]
        return {"label": display_name(table["name"]), "table": table, "sliders": sliders}

    # --- answers ------------------------------------------------------------------------------------------------------

    def answer(self, given: Any) -> dict[str, Any]:
        """Return the curves for a question, or raise InputError; raise Superseded once the page asks again."""
        asked = _read(given)
        self._newest = dict([*self._newest.items()][-KEPT:])  # without pages that were closed
        self._newest[asked.page] = max(asked.number, self._newest.get(asked.page, 0))

        def check_newest(*_: Any) -> None:
            if self._newest.get(asked.page, 0) > asked.number:
                raise Superseded

        with self._lock:
            check_newest()
            began, compiled = time.perf_counter(), self.compiled.count
            common = self._move(asked)
            built = _build(common, asked.algorithm)
            good = [(table, setup) for table, setup in built if isinstance(setup, Setup)]
            if not good:
                raise InputError(str(built[0][1]))
            spec, setup = Spec.of(common | {"algorithm": [table for table, _ in good]}), good[0][1]
            spec.parts()  # two methods that are alike are refused together only
            methods = [
                {"error": str(one)} if isinstance(one, InputError) else self._show(common, table, one, check_newest)
                for table, one in built
            ]
            looks = style_methods([str(table.get("name")) for table in asked.algorithm])
            agents, names = setup.network.agents, setup.problem.agent_names
            svg = draw_network({"agents": agents, "edges": edges_of(setup.network), "agent_names": names})
            return {
                "methods": [method | look.web() for method, look in zip(methods, looks, strict=True)],
                "network": {"svg": str(svg), "about": f"{agents} agents, {setup.network.name}"},
                "spec": spec.toml(),
                "compiled": self.compiled.count - compiled,
                "seconds": time.perf_counter() - began,
            }

    def theory(self, given: Any) -> list[dict[str, Any] | None]:
        """Return for each method of a question the step sizes that the theory knows to be stable.

        It is None for a method that the theory is not about. The page asks after the curves, which do not wait for it.
        """
        asked = _read(given)
        common = self._move(asked)
        built = _build(common, asked.algorithm)
        found: list[dict[str, Any] | None] = []
        for _, setup in built:
            rule = setup.candidates[0].whole if isinstance(setup, Setup) else None
            lam = TRACKERS[rule.name](rule) if rule is not None and rule.name in TRACKERS else None
            if not isinstance(setup, Setup) or lam is None or callable(lam):
                found.append(None)
                continue
            network, L = setup.network, setup.problem.smoothness
            try:
                gap = gap_of(network)
            except InputError as error:
                found.append({"why": str(error)})
                continue
            if L is None:
                found.append({"why": "the theory needs the smoothness L, which is not known of this problem."})
                continue
            key = json.dumps([common["network"], network.agents, lam])
            if key not in self._stable:
                self._stable[key] = step_limit(network, lam, 1.0)
            relative = setup.oracle.constants(setup.problem).relative
            c = Constants(network.agents, gap, L, excess=0.0, relative=relative or 0.0)
            eta = eta_limit(c, lam)
            missed = [one for one in conditions(c, eta, lam) if not one.holds]
            if relative is None:
                proved = "Theorem 1 needs M_f, which is not known of this oracle."
            elif missed:
                proved = f"Theorem 1 needs {missed[0].text}, which is {format_number(missed[0].limit)} here."
            else:
                proved = f"Theorem 1 covers η up to {format_number(eta)}."
            covered = eta if relative is not None and not missed else 0.0
            found.append({"stable": self._stable[key] / L, "covered": covered, "smoothness": L, "proved": proved})
        return found

    def _move(self, asked: Request) -> dict[str, Any]:
        """Return the tables of the spec with other numbers, but its algorithms."""
        tables = copy.deepcopy({key: value for key, value in self.base.items() if key != "algorithm"})
        if asked.network != tables["network"].get("name"):
            tables["network"] = {"name": asked.network}
        if asked.agents is not None:
            if "agents" not in tables["problem"]:
                raise InputError("key 'agents' cannot be moved: the spec's problem says itself how many there are.")
            tables["problem"]["agents"] = asked.agents
        share = _share_of(self.base["problem"])
        if asked.heterogeneity not in (None, share):
            if share is None:
                raise InputError(
                    "key 'heterogeneity' cannot be moved: the spec's problem has no split by-label, iid or mixed:S."
                )
            ends = {value: name for name, value in SHARES.items()}
            tables["problem"]["split"] = ends.get(asked.heterogeneity, f"mixed:{asked.heterogeneity:g}")
        stage = _find_bias(tables.get("oracle", {}))
        if asked.bias is not None and stage is not None:
            stage["mean"] = asked.bias
        elif asked.bias:
            stages = tables.setdefault("oracle", {}).setdefault("stages", [])
            stages.append({"kind": BIAS, "mean": asked.bias, "redraw": False})
        return tables

    def _show(self, common: dict[str, Any], table: dict[str, Any], setup: Setup, check_newest: Any) -> dict[str, Any]:
        """Return the run of a method."""
        key = json.dumps([common, table], sort_keys=True)
        if key not in self._shown:
            rule, seed = setup.candidates[0].whole, setup.seeds[0]
            plan = setup.plan._replace(metrics=tuple(one.name for one in select_metrics()))
            objects = setup.problem, setup.network, setup.seeds, plan
            options = {"width": setup.width, "store": NullStore(), "forecast": False}
            row = compute([setup.setting(rule)], *objects, report=check_newest, **options)[0, seed]
            frame = runs_frame(rule.name, "", {seed: row}, {seed: seed}, {}, labels())
            self._shown = dict(list(self._shown.items())[-KEPT:])
            self._shown[key] = _curves(frame, row)
        return self._shown[key]


def _read(given: Any) -> Request:
    if not isinstance(given, dict):
        raise InputError(f"a question is an object of the page's controls, but this is {brief(given)}.")
    return validate(Request, given)


def _build(common: dict[str, Any], tables: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Setup | InputError]]:
    """Return the setup of each method, or the reason why it is refused, which keeps the others."""
    built: list[tuple[dict[str, Any], Setup | InputError]] = []
    for table in tables:
        try:
            built.append((table, Spec.of(common | {"algorithm": [table]}).parts()))
        except InputError as error:
            built.append((table, error))
    return built


def _curves(frame: pl.DataFrame, row: Row) -> dict[str, Any]:
    apart = np.linalg.norm(row.x - row.x.mean(0), axis=1)
    floor = None if row.bias is None else float((np.asarray(row.bias, float).mean(0) ** 2).sum())
    measured = [one.name for one in select_metrics() if frame[one.name].null_count() < len(frame)]
    return {
        "rounds": frame["round"].to_list(),
        "values": {name: frame[name].to_list() for name in measured},
        "diverged": row.diverged,
        "floor": floor if floor and math.isfinite(floor) else None,
        "apart": apart.astype(float).tolist() if np.isfinite(apart).all() else None,
    }


def _find_bias(oracle: dict[str, Any]) -> dict[str, Any] | None:
    """Return the stage whose mean the slider of the bias moves."""
    for stage in oracle.get("stages", []):
        if stage.get("kind") == BIAS and isinstance(stage.get("mean", 0.0), (int, float)) and "vectors" not in stage:
            return stage
    return None


def _share_of(problem: dict[str, Any]) -> float | None:
    """Return the share of the rows that are sorted by label, of a split that has such a share."""
    split = problem.get("split", "by-label")
    if problem["name"] == "quadratic" or "agents" not in problem or not isinstance(split, str):
        return None
    form, _, share = split.partition(":")
    return float(share) if form == "mixed" else SHARES.get(split)


def _slider(key: str, allowed: Range | Whole, value: float) -> dict[str, Any]:
    """Return the ends of a slider. It is logarithmic for step sizes, and where small values are tried."""
    symbol = SYMBOLS.get(key, key.replace("_", " "))
    shown = {"key": key, "symbol": symbol, "value": value, "whole": False, "log": False}
    if isinstance(allowed, Whole):
        return shown | {"low": allowed.least, "high": max(min(allowed.most, 20), value), "whole": True}
    if math.isinf(allowed.high):
        return shown | {"low": min(1e-4, value or 1.0), "high": max(10.0, value), "log": True}  # 0 has no logarithm
    if allowed.beyond == "low":
        return shown | {"low": min(0.01 * allowed.high, value), "high": allowed.high, "log": True}
    inside = 0.01 * (allowed.high - allowed.low)
    low, high = allowed.low + inside * allowed.low_open, allowed.high - inside * allowed.high_open
    return shown | {"low": min(low, value), "high": max(high, value)}
