"""Write into the pages what the code knows: tables, numbers, and parts of examples. ``make pages`` runs it.

It writes between ``<!-- fill: NAME -->`` and ``<!-- end -->``: a table of ``TABLES``, a number of ``NUMBERS``, a part
of an example where NAME is ``examples/FILE.py:PART``, or a text in ``docs/measured``, which another script wrote from
a run. Between ``<!-- built: ::: NAME -->`` and ``<!-- /built -->`` it writes the first sentence of NAME's docstring,
with ``<!-- built, names: ::: NAME -->`` the name alone; the built page has all of it (``docs/hooks/forge.py``). The
marks are comments, which a forge does not show. ``tests/test_docs.py`` fails where a page is not up to date.
"""

import functools
import inspect
import itertools
import json
import math
import re
import runpy
import sys
import textwrap
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import griffe
import numpy as np
import typer
import yaml

import gossamer as gs
from gossamer import cli, networks, theory
from gossamer.algorithms import ALGORITHMS
from gossamer.cli.shared import EXIT_CODES
from gossamer.core import Whole, hyperparameters, kinds_of_parts, parts
from gossamer.data import SPLITS
from gossamer.engines.agents import RoundCost
from gossamer.engines.costs import trace
from gossamer.metrics import OURS
from gossamer.networks import WEIGHTS
from gossamer.oracles import STAGES
from gossamer.papers import OURS as OWN
from gossamer.papers import installed
from gossamer.problems import PROBLEMS
from gossamer.specs import catalogue
from gossamer.theory.theorem import Form

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "paper" / "paper.md"]
MARK = re.compile(r"<!-- fill: (\S+) -->(.*?)<!-- end -->", re.DOTALL)
DOCUMENTED = re.compile(r"(<!-- built(, names)?: (::: .*?)-->).*?<!-- /built -->", re.DOTALL)
DIRECTIVE = re.compile(r"^::: gossamer\.(\S+)(.*?)(?=^:::|\Z)", re.DOTALL | re.MULTILINE)
GRID, PLAIN = ROOT / "tests" / "theory" / "theory_grid.py", ROOT / "tests" / "plain.py"
FORMS: tuple[Form, ...] = ("printed", "repaired")


def main() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        write(page, text, fill(text))
    for page, make in WHOLE.items():  # made of the pages above
        write(page, page.read_text(encoding="utf-8") if page.exists() else "", make())


def write(page: Path, old: str, new: str) -> None:
    if new != old:
        page.write_text(new, encoding="utf-8")
        print(f"written: {page.relative_to(ROOT)}")


def fill(text: str) -> str:
    """Return the text of a page with everything between its marks up to date."""
    text = DOCUMENTED.sub(
        lambda one: f"{one[1]}\n\n{(list_names if one[2] else describe_names)(one[3])}\n\n<!-- /built -->", text
    )
    return MARK.sub(lambda found: f"<!-- fill: {found[1]} -->{content(found[1])}<!-- end -->", text)


@functools.cache
def content(name: str) -> str:
    """Return what stands between the marks of a name: a number within a line, all else on lines of its own."""
    if name in NUMBERS:
        return NUMBERS[name]()
    if name in TABLES:
        return f"\n\n{TABLES[name]()}\n\n"
    file, _, part = name.partition(":")
    if file.startswith("docs/measured/") and (ROOT / file).is_file():
        return f"\n\n{(ROOT / file).read_text(encoding='utf-8').strip()}\n\n"
    if not part or not (ROOT / file).is_file():
        raise ValueError(f"there is no {name!r} to fill in; docs/fill.py has {', '.join([*TABLES, *NUMBERS])}")
    lines = (ROOT / file).read_text(encoding="utf-8").split(f"# --8<-- [start:{part}]\n")[1]
    code = textwrap.dedent(lines.split(f"# --8<-- [end:{part}]")[0].rstrip(" "))
    return f"\n\n```py\n{code.strip()}\n```\n\n"


@functools.cache
def package() -> griffe.Module:
    """Read the package without importing it."""
    found = griffe.load("gossamer", search_paths=[str(ROOT / "src")])
    assert isinstance(found, griffe.Module)
    return found


def describe_names(block: str) -> str:
    """Return a line for each name that a block documents: how it is called, and the first sentence of its docstring."""
    lines = []
    for path, members in _directives(block):
        lines.append(_describe(path) + (f" It has {_codes(members)}." if members else ""))
    return "\n".join(f"- {line}" for line in lines)


def list_names(block: str) -> str:
    """Return the names that a block documents, for a page that another page describes."""
    return f"{_codes([_place(package()[path], path.rpartition('.')[2]) for path, _ in _directives(block)])}."


def _directives(block: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the paths that a block documents, and the members that are shown; of a module, the paths of its members."""
    for path, options in DIRECTIVE.findall(block):
        members = (yaml.safe_load(options) or {}).get("options", {}).get("members") or []
        found = package()[path]
        if not found.is_module:
            yield path, members
            continue
        public = [name for name, one in found.members.items() if one.is_public and not one.is_alias and one.docstring]
        own = [f"{path}.{name}" for name in members or public if not package()[f"{path}.{name}"].is_module]
        yield from ((one, []) for one in [path] * (not members) + own)


def _describe(path: str) -> str:
    found, name = package()[path], path.rpartition(".")[2]
    text = " ".join(found.docstring.value.split("\n\n")[0].split()) if found.docstring else ""
    sentence = re.match(r".*?\.(?=\s|$)", text)
    return f"`{_place(found, name)}`: {sentence[0] if sentence else text}"


def _place(found: griffe.Object | griffe.Alias, name: str) -> str:
    """Return the shortest path by which a user reaches an object."""
    whole = found.canonical_path
    same = (whole, whole.removesuffix(f".{name}"))  # `clock` is also the name of its module
    rooms = ((one, f"gs.{key}") for key, one in package().modules.items() if not one.is_alias)
    for place, prefix in ((package(), "gs"), *rooms):
        if name in place.members and place.members[name].canonical_path in same:
            return f"{prefix}.{name}".replace("gs.torch", "gossamer.torch")
    return whole


def llms() -> str:
    """List the pages of the documentation, each with its first sentence, as llmstxt.org describes such a list."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    lines = [f"# {settings['site_name']}", "", f"> {settings['site_description']}.", ""]
    lines += ["The package holds a guide for assistants, gossamer/AGENTS.md.", "", "## Pages", ""]
    sections = [entry for entry in settings["nav"] if isinstance(next(iter(entry.values())), list)]
    lines += [_listed(entry) for entry in settings["nav"] if entry not in sections]
    for section in sections:
        ((title, entries),) = section.items()
        lines += ["", f"## {title}", "", *map(_listed, entries)]
    return "\n".join(lines) + "\n"


def _listed(entry: dict[str, str]) -> str:
    ((title, page),) = entry.items()
    text = re.sub(r"<!--.*?-->", "", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    prose = (" ".join(part.split()) for part in text.split("\n\n") if re.match(r"[A-Z`]", part))
    sentence = re.match(r".*?[.:](?=\s|$)", next(prose, ""))
    about = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", sentence[0]).rstrip(".:") if sentence else ""
    return f"- [{title}]({page.removesuffix('.md')}.html)" + f": {about}." * bool(about)


NAMED = (
    "algorithms",
    "networks",
    "oracles",
    "compressors",
    "aggregators",
    "problems",
    "datasets",
    "links",
    "compute-times",
)
"""The kinds of names in the guide, as `gossamer list` has them."""


def guide() -> str:
    """Return the guide in the package, with the code of the documentation's pages."""

    def block(page: str, language: str) -> str:
        found = re.search(
            rf"^```{language}\n.*?^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
        assert found
        return found[0]

    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert version
    return (
        (ROOT / "docs" / "templates" / "agents.txt")
        .read_text(encoding="utf-8")
        .format(
            version=version[1],
            exits=", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()),
            python=block("README.md", "python"),
            spec=block("docs/specs.md", "toml"),
            contract=block("docs/howto/own-algorithm.md", "python"),
            commands=commands(),
            names="\n".join(
                f"- {kind}: {_codes([one['name'] for one in catalogue.list_kind(kind)])}" for kind in NAMED
            ),
        )
    )


def algorithms() -> str:
    head = ["name", "sent to each neighbour", "queries", "network", "reference"]
    return _table(head, [_algorithm(name, kind) for name, kind in ALGORITHMS.items()])


def ranges() -> str:
    """Write the table of hyper-parameters by their range; a name with several ranges lists its algorithms."""
    users: dict[str, dict[str, list[str]]] = {}
    for name, kind in ALGORITHMS.items():
        for key, allowed in hyperparameters(kind).items():
            users.setdefault(key, {}).setdefault(str(allowed), []).append(name)
    found: dict[str, list[str]] = {}
    for key, ranges in users.items():
        most = max(ranges, key=lambda allowed: len(ranges[allowed]))
        for allowed, names in ranges.items():
            found.setdefault(allowed, []).append(f"`{key}`" + f" of {_codes(names)}" * (allowed != most))
    return _table(["range", "hyper-parameters"], [(allowed, ", ".join(keys)) for allowed, keys in found.items()])


def equations() -> str:
    """Write a section for each algorithm; the built page has the whole docstring of its module."""
    return "\n\n".join(_section(name, kind) for name, kind in ALGORITHMS.items())


def metrics() -> str:
    return _table(["column", "definition"], [(f"`{name}`", label.about) for name, label in OURS.items()])


AGENTS_COMPARED = 24
SHOWN_OF_A_NETWORK = ("sends", "ρ", "rounds")
"""Columns of `gossamer networks` that the page has."""


def graphs() -> str:
    """Write the table of all networks, the fastest first, with some columns of `gossamer networks`."""
    entries = {entry["name"]: entry for entry in catalogue.list_kind("networks")}
    common = [key for key in entries["ring"]["options"] if all(key in one["options"] for one in entries.values())]
    head, compared = gs.networks.compare(AGENTS_COMPARED).cells()
    known = {row[0]: [row[head.index(title)] for title in SHOWN_OF_A_NETWORK] for row in compared}
    rows = []
    for name in [*known, *(name for name in entries if name not in known)]:
        options = [key for key in entries[name]["options"] if key not in common]
        numbers = known.get(name, ["–"] * len(SHOWN_OF_A_NETWORK))
        rows.append((f"`{name}`", _codes(options), entries[name]["about"], *numbers))
    table = _table(["network", "options", "description", *SHOWN_OF_A_NETWORK], rows)
    return f"{table}\n\nEvery network also takes {_codes(common)}."


def weights() -> str:
    first = {name: (inspect.getdoc(make) or "").splitlines()[0] for name, make in WEIGHTS.items()}
    return _table(
        ["weights", "definition"], [(f"`{name}`", text.removeprefix("Return ")) for name, text in first.items()]
    )


def splits() -> str:
    return _table(["split", "rows of an agent"], [(f"`{name}`", about) for name, about in SPLITS.items()])


SPREAD_OVER = (
    "iid",
    "mixed:0.25",
    "mixed:0.5",
    "mixed:0.75",
    "by-label",
    "dirichlet:1",
    "dirichlet:0.1",
    "dirichlet:0.01",
)


def spreads() -> str:
    """Write the table of ζ² of 20 agents at the start on a9a, for several splits in equal sizes."""
    problems = {how: gs.problems.logistic("a9a", agents=20, split=how) for how in SPREAD_OVER}
    rows = [(f"`{how}`", f"{problem.heterogeneity(problem.start):.4g}") for how, problem in problems.items()]
    return _table(["split", "$\\zeta^2$ at the start"], rows)


def datasets() -> str:
    entries = catalogue.list_kind("datasets")
    return _table(["name", "description"], [(f"`{entry['name']}`", entry["about"]) for entry in entries])


def problems() -> str:
    """Write the table of problems, and below it the options of the data, which all but the last share."""
    named = {name: _keys(make) for name, make in PROBLEMS.items()}
    data = [keys for keys in named.values() if any(key.startswith("`split") for key in keys)]
    common = [key for key in data[0] if all(key in keys for keys in data)]
    shown = {name: [key for key in keys if keys not in data or key not in common] for name, keys in named.items()}
    rows = [
        (f"`{name}`", ", ".join(shown[name]), _first(inspect.getdoc(make)).rstrip("."))
        for name, make in PROBLEMS.items()
    ]
    table = _table(["name", "keys, with their defaults", "description"], rows)
    return f"{table}\n\nAll problems on data also take {', '.join(common)}."


def stages() -> str:
    rows = [(f"`{name}`", ", ".join(_keys(make)) or "–") for name, make in STAGES.items()]
    return _table(["stage", "keys, with their defaults"], rows)


def _keys(make: Any) -> list[str]:
    """List the keys of a function, with their defaults."""
    return [
        f"`{key}`" if value.default in (None, value.empty) else f"`{key} = {json.dumps(value.default)}`"
        for key, value in inspect.signature(make).parameters.items()
    ]


def compressors() -> str:
    return _entries(catalogue.list_kind("compressors"))


def schedules() -> str:
    return _entries(catalogue.list_kind("schedules"))


def commands() -> str:
    """Write the table of commands, each with the first sentence of its help."""
    known: Any = typer.main.get_command(cli.app())
    rows = [(f"`gossamer {name}`", _first(one.help)) for name, one in sorted(known.commands.items())]
    return _table(["command", "purpose"], rows)


def _first(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def exits() -> str:
    return _table(["code", "meaning"], [(str(code), meaning) for code, meaning in EXIT_CODES.items()])


@functools.cache
def read_verdicts() -> list[str]:
    """Read the verdicts on the paper's own claims, of the run that the documentation shows."""
    rows = json.loads((ROOT / "docs" / "assets" / "reproduction" / "verdicts.json").read_text(encoding="utf-8"))
    return [row["verdict"] for row in rows if row["section"] != OWN]


def speed(contest: str, who: str) -> Callable[[], str]:
    """Return the median that the page of performance, which a run of the benchmarks wrote, has for a contestant."""

    def found() -> str:
        page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
        row = re.search(rf"^\| {contest} \|.*?^\| {who} \| ([\d,]+) ", page, re.MULTILINE | re.DOTALL)
        assert row, f"docs/performance.md has no {who!r} under {contest!r}"
        return row[1]

    return found


def corollary() -> str:
    """Write the table of the conditions of both forms of the theorem on a ring of 20."""
    rows = [
        (r"$\rho$", *[digits(ring().gap, 5)] * 2),
        (r"$\kappa$", "1", digits(theory.kappa_of(ring(), "repaired"), 4)),
        (r"largest $\lambda$", *(f"${digits(largest(ring(), form)[0])}$" for form in FORMS)),
        (r"largest $\eta L$", *(f"${digits(largest(ring(), form)[1])}$" for form in FORMS)),
        ("least rounds of the corollary", *(f"{math.ceil(theory.steps_limit(ring(), form)):,}" for form in FORMS)),
    ]
    return _table(["", "as printed", "repaired"], rows)


def local() -> str:
    """Write the table of the relative bias and the floors of local training on the quadratics of the tests."""
    head = ["$H$", "$M_f$", "floor of a run", "of the closed form", r"$\frac{M_f}{1 - M_f} \zeta^2$"]
    return _table(
        head, [(str(steps), *(f"${digits(value)}$" for value in local_floors(steps))) for steps in (2, 5, 10)]
    )


def feedback() -> str:
    """Write the table of the ends of Biased-DMT on them under top-1, with and without error feedback."""
    top = gs.compressors.top_k(1)
    oracles = [gs.oracles.compressed(top), *(gs.oracles.error_feedback(top, how) for how in ("classic", "ef21"))]

    def ends(oracle: Any, eta: float) -> str:
        # what rounding leaves differs from machine to machine
        return f"${digits(value, 2)}$" if (value := floor(oracle, eta)) > 1e-20 else "0, to rounding"

    rows = [(f"{eta:g}", *(ends(oracle, eta) for oracle in oracles)) for eta in (0.1, 0.01)]
    return _table(["step size", "compressed", "classic", "EF21"], rows)


def gap(agents: int) -> float:
    """Return the spectral gap of a ring."""
    rho = networks.ring(agents).gap
    assert rho is not None
    return rho


@functools.cache
def ring(smoothness: float = 1.0) -> theory.Constants:
    """Return the constants of the ring of 20."""
    return theory.Constants(agents=20, gap=gap(20), smoothness=smoothness, excess=1.0)


def largest(c: theory.Constants, form: Form) -> tuple[float, float]:
    """Return the largest λ that the theorem allows, and the largest η at that λ."""
    lam = theory.lam_limit(c, form)
    return lam, theory.eta_limit(c, lam, form)


def corollary_falls() -> float:
    """A₃ over η, as printed, on the ring of 20 at the fewest rounds that Corollary 1 allows."""
    eta, lam = theory.corollary(ring(), theory.steps_limit(ring(), "printed"))
    return theory.descent(ring(), eta, lam, "printed").A3 / eta


def corollary_misses() -> float:
    """Return the factor by which Corollary 1's step misses its condition there."""
    eta, lam = theory.corollary(ring(), theory.steps_limit(ring(), "printed"))
    checked = theory.conditions(ring(), eta, lam, "printed")
    return max(one.missed_by for one in checked if not one.holds and one.missed_by is not None)


def proved_step() -> float:
    """The largest η on the ring of 20 for which docs/proofs.py proved a floor of about twice σ_f²."""
    found = json.loads((ROOT / "docs" / "assets" / "proofs" / "found.json").read_text(encoding="utf-8"))
    return found["theorem"]["ring of 20"]["largest"]["eta"]


@functools.cache
def ring_limits() -> tuple[int, int]:
    """Find the largest ring with ρ ≥ ½, and the smallest on which A₃ < 0 with the weights of Corollary 1."""
    gaps = {n: gap(n) for n in range(3, 40)}
    fails = [n for n, rho in gaps.items() if _third(n, rho) < 0]
    return max(n for n, rho in gaps.items() if rho >= 0.5), min(fails)


def _third(n: int, rho: float) -> float:
    lam = rho / (4 * math.sqrt(n))
    return theory.coefficients(n, rho, 1.0, 0.0, lam / 16, lam).A3


@functools.cache
def grid() -> dict[str, float]:
    """Return the smallest A of the theorem as printed over the tests' grid of settings, in units of η."""
    _, lam, eta, a = runpy.run_path(str(GRID))["on_the_grid"]("printed")
    return {"settings": lam.size, **{name: (getattr(a, name) / eta).min() for name in ("A1", "Am", "A3")}}


@functools.cache
def practical() -> dict[str, float]:
    """Compare the setting of the reproduction's longest runs with the largest that the theorem allows."""
    parts = installed()["biased-dmt"].spec_of("fig2").parts()
    chosen = next(each.fixed for each in parts.candidates if each.name == "biased-dmt")
    smoothness = parts.problem.smoothness
    assert smoothness is not None
    lam, eta = largest(ring(smoothness), "repaired")
    over = {"lam.over": chosen["lam"] / lam, "eta.over": chosen["eta"] / eta}
    return {"eta": chosen["eta"], "lam": chosen["lam"], "L": smoothness, **over}


@functools.cache
def quadratics() -> tuple[Any, Any]:
    """Different quadratics of 8 agents, and a network: those of the tests."""
    sys.path.append(str(PLAIN.parents[1]))  # files of tests import one another from there
    made = runpy.run_path(str(PLAIN))
    return made["heterogeneous"]()[0], made["irregular"]()


def floor(oracle: Any, eta: float) -> float:
    """‖∇F‖² where Biased-DMT ends on them."""
    rule = gs.BiasedDMT(eta=eta, lam=0.3)
    result = gs.simulate(rule, *quadratics(), oracle, steps=4000, dtype="float64", progress=False)
    return float(result.final("grad_norm_sq")["biased-dmt"][0])


def local_floors(steps: int) -> tuple[float, float, float, float]:
    """M_f of local training, the floor in a run and by its closed form, and the bound on it."""
    problem, eta = quadratics()[0], 0.05
    eye = np.eye(problem.dim)
    P = (eye - np.linalg.matrix_power(eye - eta * problem.A, steps)) / (steps * eta)
    settled = np.linalg.solve(P.sum(0), np.einsum("nde,ne->d", P, problem.b))
    relative = float((np.linalg.norm(P @ np.linalg.inv(problem.A) - eye, 2, axis=(1, 2)) ** 2).max())
    run, closed = floor(gs.oracles.local_training(steps, eta), 0.05), float((problem.gradient(settled) ** 2).sum())
    return relative, run, closed, relative / (1 - relative) * problem.heterogeneity(settled)


def digits(value: float, places: int = 3) -> str:
    """Format a number with so many significant digits; very small and large ones as powers of ten in LaTeX."""
    if value and not 1e-3 <= abs(value) < 1e7:
        power = math.floor(math.log10(abs(value)))
        return rf"{value / 10**power:.{places - 1}f} \cdot 10^{{{power}}}"
    whole = round(value, places - 1 - math.floor(math.log10(abs(value)))) if value else 0.0
    return f"{whole:,.0f}" if abs(whole) >= 10 ** (places - 1) else f"{whole:.{places}g}"


AGENTS, DIM = 4, 16
"""The problem on which costs are counted: its vectors are longer than one with a number for each agent."""

NETWORKS = {
    "doubly": "doubly stochastic",
    "row": "row-stochastic",
    "column": "column-stochastic",
    "row+column": "row- and column-stochastic",
    "nothing": "–",
}


def _algorithm(name: str, kind: type) -> list[str]:
    vectors, thin = _paid(kind, lambda each: each.gossiped // DIM), _paid(kind, lambda each: each.bits / (32 * DIM))
    sent = [*_vectors(vectors, ""), *_vectors(thin, " compressed")]
    sent += {0: [], 1: ["1 number"], AGENTS: ["$n$ numbers"]}[_round(kind, 1).gossiped % DIM]
    messages = _paid(kind, lambda each: each.messages)
    several = f" in {messages} messages" if messages not in ("1", "–") else ""
    counted = [" and ".join(sent) + several or "an all-reduce" * bool(_round(kind, 1).reduced)]
    counted += [_paid(kind, lambda each: each.queries) + " and a full gradient" * _round(kind, 1).passes]
    return [f"[`{name}`](#{name})", *counted, _network(kind), _reference(kind)]


def _paid(kind: type, part: Callable[[RoundCost], float]) -> str:
    """Return a part of the costs of a round: a number, or a formula in the algorithm's whole number."""
    once, twice = part(_round(kind, 1)), part(_round(kind, 2))
    if once == twice:
        return f"{once:g}" if once else "–"
    (count,) = (key for key, allowed in hyperparameters(kind).items() if type(allowed) is Whole)  # no warm start
    each, fixed = twice - once, 2 * once - twice
    return f"{fixed:g} + " * bool(fixed) + f"{each:g} × " * (each != 1) + f"`{count}`"


def _vectors(number: str, how: str) -> list[str]:
    return [f"{number}{how} vector{'s' * (number != '1')}"] if number != "–" else []


def _network(kind: type) -> str:
    if kind.lowest is not None:
        bound = f", eigenvalues above {Fraction(kind.lowest).limit_denominator(9)}" if kind.lowest > -1 else ""
        return f"symmetric, static{bound}"
    if kind.tree:
        return "tree, static"
    return NETWORKS[kind.needs] + (", static" if kind.static else "")


def _module_doc(kind: type) -> str:
    module = inspect.getmodule(kind)
    return (module and module.__doc__) or ""


def _reference(kind: type) -> str:
    """Return the first author and the arXiv number; the section of the algorithm has the whole reference."""
    found = re.search(r"Reference: (.*?)\n*$", _module_doc(kind), re.DOTALL)
    if not found:
        return "–"
    text = " ".join(found[1].split())
    first = re.split(r",| and | et al\.|;", text)[0]
    if first == "this software":
        return "ours"
    number = re.search(r"arXiv (\d+\.\d+)", text)
    return first.split(". ")[-1] + (f" {number[1]}" if number else "")


def _takes(kind: type) -> list[str]:
    return [*hyperparameters(kind), *parts(kind)]


@functools.cache
def _round(kind: type, count: int) -> RoundCost:
    """Count the costs of one agent in a round as the simulator does, with `count` for all whole numbers."""
    problem = gs.problems.quadratic(np.eye(DIM), np.zeros((AGENTS, DIM)))
    known = hyperparameters(kind).items()
    numbers = {key: count if type(allowed) is Whole else allowed.example for key, allowed in known}
    some = {"compressor": gs.compressors.identity(), "aggregator": gs.aggregators.median()}
    rule = kind(**numbers, **{key: some[part] for key, part in kinds_of_parts(kind).items()})
    return trace(rule, problem, gs.networks.ring(AGENTS), gs.oracles.exact(), "float32").each_round


def _section(name: str, kind: type) -> str:
    """Write a heading, the name in Python, and the docstring's title and equations, each equation on one line."""
    title, *paragraphs = inspect.cleandoc(_module_doc(kind)).split("\n\n")
    shown = [
        " ".join(one.split()) for one in [title, *itertools.takewhile(lambda one: one.startswith("$$"), paragraphs)]
    ]
    module = inspect.getmodule(kind)
    assert module is not None
    text = "\n\n".join([f"<!-- built, docstring: {module.__name__} -->", *shown, "<!-- /built -->"])
    return f"## {name}\n\n`gs.{kind.__name__}({', '.join(_takes(kind))})`\n\n{text}"


def _table(head: list[str], rows: list) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _entries(entries: list) -> str:
    return _table(
        ["name", "options", "description"], [(f"`{e['name']}`", _codes(e["options"]), e["about"]) for e in entries]
    )


def _codes(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"


TABLES = {
    make.__name__: make
    for make in (
        *(algorithms, ranges, equations, metrics, graphs, weights, splits, spreads, problems, stages),
        *(datasets, compressors, schedules, commands, exits, corollary, local, feedback),
    )
}
CONTESTS = {"one": "A single run", "many": "32 settings at once"}
CONTESTANTS = {"gossamer": "Gossamer", "native": "Gossamer, native", "numba": "Numba, by hand", "scipy": "SciPy"}
NUMBERS: dict[str, Callable[[], str]] = {
    **{
        f"bench.{contest}.{who}": speed(title, name)
        for contest, title in CONTESTS.items()
        for who, name in CONTESTANTS.items()
        if (contest, who) != ("many", "numba")  # a kernel for one setting
    },
    "algorithms.count": lambda: str(len(ALGORITHMS)),
    "claims.paper": lambda: str(len(read_verdicts())),
    "claims.paper.hold": lambda: str(read_verdicts().count("holds")),
    "claims.paper.fail": lambda: str(read_verdicts().count("does not hold")),
    "claims.paper.tie": lambda: str(read_verdicts().count("tie")),
    "ring20.rounds": lambda: f"{math.ceil(theory.steps_limit(ring(), 'repaired')):,}",
    "ring20.eta": lambda: f"${digits(largest(ring(), 'repaired')[1])}$",
    "ring20.A3": lambda: rf"$A_3 = {digits(corollary_falls())}\,\eta$",
    "ring20.missed": lambda: digits(corollary_misses()),
    "ring20.speedup": lambda: f"${digits(2.25 * 20**5 / ring().gap ** 4, 2)}$",
    "rings.half": lambda: str(ring_limits()[0]),
    "rings.fail": lambda: str(ring_limits()[1]),
    "grid.settings": lambda: f"{grid()['settings']:,}",
    "grid.A1": lambda: rf"$A_1 = {digits(grid()['A1'])}\,\eta$",
    "grid.Am": lambda: rf"$A_m = {digits(grid()['Am'])}\,\eta$",
    "grid.A3": lambda: rf"$A_3 = {digits(grid()['A3'])}\,\eta$",
    "proofs.larger": lambda: f"{proved_step() / largest(ring(), 'printed')[1]:,.0f}",
    "practical.eta": lambda: rf"$\eta = {digits(practical()['eta'])}$",
    "practical.lam": lambda: rf"$\lambda = {digits(practical()['lam'])}$",
    "practical.L": lambda: f"$L = {digits(practical()['L'])}$",
    "practical.eta.over": lambda: digits(practical()["eta.over"]),
    "practical.lam.over": lambda: digits(practical()["lam.over"]),
}

WHOLE = {ROOT / "docs" / "llms.txt": llms, ROOT / "src" / "gossamer" / "AGENTS.md": guide}
"""Files that are made of the pages and of what the code knows."""

if __name__ == "__main__":
    main()
