"""Ways to run: a method in one of its forms on one graph, and why others are left out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gossamer.algorithms import ALGORITHMS
from gossamer.core import InputError, Rule, Whole, hyperparameters, kinds_of_parts, nearest
from gossamer.experiments.recommending.question import Question
from gossamer.networks import NETWORKS
from gossamer.networks.registry import COMMON, make
from gossamer.specs.candidates import Candidate, Values
from gossamer.specs.making import with_parts
from gossamer.specs.parts import Parts
from gossamer.specs.spec import Spec

SAME = {"biased-dsgd": "d-psgd"}
"""Methods whose recursion is that of another."""

COMPRESSED: tuple[dict[str, Any], ...] = ({"kind": "top-k", "share": 0.1}, {"kind": "qsgd", "levels": 4})
"""What compresses messages, for methods that have it; the first at first."""

LOCAL = (10, 3)
"""Numbers of local steps, or of other whole numbers of a method; the first at first."""

GRAPHS: tuple[dict[str, Any], ...] = (
    {"name": "ring"},
    {"name": "base-graph", "degree": 1},
    {"name": "u-equistatic", "degree": 4},
    {"name": "exponential"},
)
"""Graphs that are tried besides the spec's own, as far as their degree allows."""

BY_NAME = ("file", "sequence", "spanning-tree")
"""Networks that say which links there are: no other graph is tried in their place."""


@dataclass(frozen=True)
class Way:
    """A method with its parts and whole numbers on a network; its other numbers are open."""

    spec: Spec
    algorithm: dict[str, Any]
    network: dict[str, Any]
    parts: Parts

    @staticmethod
    def of(spec: Spec, algorithm: dict[str, Any], network: dict[str, Any]) -> "Way":
        """The way, or an `InputError` that says why it cannot be."""
        candidate = _candidate(algorithm)
        _ = candidate.step  # there is one, or it cannot be tuned
        example = algorithm | {key: allowed.example for key, allowed in candidate.open.items()}
        whole = spec.model_copy(update={"algorithm": [example], "network": network})
        return Way(spec, algorithm, network, whole.parts())

    @cached_property
    def candidate(self) -> Candidate:
        return _candidate(self.algorithm)

    def rule(self, values: Values) -> Rule:
        """The method with its numbers."""
        return self.candidate.rule(values)

    @property
    def form(self) -> str:
        """The method and what it is made of, in words."""
        told = [part["kind"] for part in self.algorithm.values() if isinstance(part, dict)]
        told += [f"{key}={value}" for key, value in self.algorithm.items() if isinstance(value, int)]
        return " ".join([self.algorithm["name"], *told])

    @property
    def graph(self) -> str:
        """The network, in words."""
        given = [f"{key}={value}" for key, value in self.network.items() if key not in ("name", "asynchronous")]
        told = self.network["name"] + (f"({', '.join(given)})" if given else "")
        return told + (", asynchronous" if self.network.get("asynchronous") else "")

    @property
    def name(self) -> str:
        return f"{self.form} on {self.graph}"


def _candidate(algorithm: dict[str, Any]) -> Candidate:
    options = with_parts(f"{algorithm['name']}:", algorithm)
    return Candidate(ALGORITHMS[options.pop("name")], options)


@dataclass(frozen=True)
class Choices:
    """What may be tried, and what is left out before anything runs, and why."""

    question: Question
    methods: list[str]
    graphs: list[dict[str, Any]]
    left_out: dict[str, str]

    @staticmethod
    def of(question: Question) -> "Choices":
        left_out: dict[str, str] = {}
        graphs = list(_graphs(question, left_out))
        directed = make_of(graphs[0], question).stochastic != "doubly"
        attacked = "attack" in question.spec.network
        methods = list(_methods(question, directed, attacked, left_out))
        return Choices(question, methods, graphs, left_out)

    def first(self) -> list[Way]:
        """Every method in its first form, on the first graph that suits it."""
        return [way for name in self.methods if (way := self._first(name)) is not None]

    def _first(self, name: str) -> Way | None:
        reasons = []
        for graph in self.graphs:
            try:
                return Way.of(self.question.spec, next(forms(name)), graph)
            except InputError as error:
                reasons.append(str(error))
        self.left_out[name] = reasons[0]
        return None

    def further(self, way: Way) -> list[Way]:
        """All forms of a method on all graphs, and where nobody waits, if it can do that."""
        name = way.algorithm["name"]
        quick = [graph | {"asynchronous": True} for graph in self.graphs] if hasattr(way.candidate.kind, "wake") else []
        found = [way]
        for form in forms(name):
            for graph in self.graphs + quick:
                if (form, graph) != (way.algorithm, way.network):
                    try:
                        found.append(Way.of(self.question.spec, form, graph))
                    except InputError as error:
                        self.left_out[f"{name} on {graph['name']}"] = str(error)
        return found


def forms(name: str) -> Iterator[dict[str, Any]]:
    """A method with each of its compressors and whole numbers."""
    kind, table = ALGORITHMS[name], {"name": name}
    parts: dict[str, str] = kinds_of_parts(kind)
    table |= {key: {"kind": "clipped"} for key, part in parts.items() if part == "aggregator"}
    compressed = next((key for key, part in parts.items() if part == "compressor"), None)
    counted = [key for key, allowed in Candidate(kind, {}).open.items() if isinstance(allowed, Whole)]
    for compressor in COMPRESSED if compressed else ({},):
        for number in LOCAL if counted else (0,):
            made = {compressed: compressor} if compressed else {}
            yield table | made | {key: _whole(hyperparameters(kind)[key], number) for key in counted}


def _whole(allowed: Any, number: int) -> int:
    return min(max(number, allowed.least), allowed.most)


def make_of(table: Mapping[str, Any], question: Question) -> Any:
    """The network of a table, for as many agents as the problem has."""
    options = dict(table)
    return make(options.pop("name"), agents_of(question), **options)


def agents_of(question: Question) -> int:
    return _problem(question).agents


def _problem(question: Question) -> Any:
    spec = question.spec
    example = {"name": "centralized-sgd", "eta": 1.0}
    return spec.model_copy(update={"algorithm": [example], "network": {"name": "complete"}}).parts().problem


def _graphs(question: Question, left_out: dict[str, str]) -> Iterator[dict[str, Any]]:
    own = question.spec.network
    shared = {key: own[key] for key in COMMON if key in own and key != "asynchronous"}
    if question.graphs:
        for name in question.graphs:
            if name not in NETWORKS:
                raise InputError(f"graphs: {name!r} is not a network; {nearest(name, NETWORKS)}")
            table = next((table for table in GRAPHS if table["name"] == name), {"name": name}) | shared
            given = table if own.get("name") != name else own
            make_of(given, question)
            yield given
        return
    network = make_of(own, question)
    yield {key: value for key, value in own.items() if key != "asynchronous"}
    if own.get("name") in BY_NAME or network.stochastic != "doubly":
        left_out["other graphs"] = f"the spec says which links there are ({network.name}); --graph NAME tries others"
        return
    for table in GRAPHS:
        if table["name"] == own.get("name"):
            continue
        try:
            network = make_of(table | shared, question)
        except InputError as error:
            left_out[table["name"]] = str(error)
            continue
        if network.traffic > question.degree:
            left_out[table["name"]] = (
                f"an agent sends to {network.traffic:g} others in a round, and degree = {question.degree} is the most"
            )
            continue
        yield table | shared


def _methods(question: Question, directed: bool, attacked: bool, left_out: dict[str, str]) -> Iterator[str]:
    for name in question.methods:
        if name not in ALGORITHMS:
            raise InputError(f"methods: there is no algorithm {name!r}; {nearest(name, ALGORITHMS)}")
    if question.methods:
        yield from question.methods
        return
    for name, kind in ALGORITHMS.items():
        if name in SAME:
            left_out[name] = f"its recursion is that of {SAME[name]}"
        elif kind.needs not in ("doubly", "nothing") and not directed:
            left_out[name] = "it is for directed graphs, and pays for what undirected ones do not need"
        elif "aggregator" in kinds_of_parts(kind).values() and not attacked:
            left_out[name] = "it is for networks with attackers, and this one has none"
        else:
            yield name
