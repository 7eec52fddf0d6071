"""Golden results: numbers that a change of the code must not move, as digests of their exact bytes.

    python -m tests.golden write [PART …]      compute and write tests/golden_results/PART.json
    python -m tests.golden compare [PART …]    compute again and say what moved

A digest is the SHA-256 of the little-endian bytes of a float64 array (text as UTF-8), cut to 16 hexadecimal digits.
Beside each digest stand a few of the numbers with all their digits, so that a comparison says by how much they moved.

Parts: networks (W(t) over 20 rounds), costs (what a rule pays, and its seconds by clocks), rules (models of every rule
after 20 rounds), gossip (models on every network), examples (every examples/*.toml at 60 rounds in float64),
experiment-NAME (each experiment of the paper in a small form: tables, tuning and verdicts) and report (the embedded
JSON of one report). Compiled programs stay in .cache/golden, or where JAX_COMPILATION_CACHE_DIR says.

The bits of compiled programs belong to a kind of processor and a version of XLA, which the files name. Under other
versions than a file's of JAX, jaxlib, NumPy or SciPy the numbers beside the digests are compared, within TOLERANCE; a
digest of text has no numbers, and is then not compared.
"""

import hashlib
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from html import unescape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import networkx as nx
import numpy as np
import polars as pl
import tomlkit

import gossamer as gs
from gossamer.algorithms import ALGORITHMS

# the only names from inside the package: what is renamed there is renamed here, and nowhere else in this file
from gossamer.engines.costs import add_seconds, count_costs
from gossamer.engines.simulator import apply_clock
from gossamer.networks import NETWORKS
from gossamer.paper.claims import judge
from gossamer.paper.experiments import EXPERIMENTS, text_of
from tests.commands import gossamer

ROOT = Path(__file__).parents[1]
EXAMPLES, RESULTS = ROOT / "examples", Path(__file__).with_name("golden_results")
SETTINGS = {
    "jax_compilation_cache_dir": os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(ROOT / ".cache" / "golden"),
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    "jax_disable_most_optimizations": True,  # compiles in half the time; fusions decide no bits
}
ROUNDS, STEPS = 20, 60
TOLERANCE = 1e-9
"""Relative to the largest of the numbers beside a digest, and to 1e-3 where these are smaller."""
LAPACK = ("gap",)
"""Never compared to the bit: LAPACK takes other kernels on other generations of a processor, whose name is the same."""

Entry = dict[str, Any]
"""Digests, each with numbers, by name: {"loss": ["ab12…", 0.31, 0.35]}; or plain values, compared as they are."""


# --- digests ----------------------------------------------------------------------------------------------------------


def digest(values: Any) -> list[Any]:
    """Return the digest of an array's bytes in float64, and its first, last and mean value."""
    flat = np.ascontiguousarray(values, "<f8")
    known = flat[np.isfinite(flat)]
    shown = [float(known[0]), float(known[-1]), math.fsum(known) / known.size] if known.size else []
    return [_hex(repr(flat.shape).encode() + flat.tobytes()), *shown]


def digest_text(text: str) -> list[Any]:
    return [_hex(text.encode())]


def _hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def digest_frame(frame: pl.DataFrame) -> Entry:
    """Return a digest for each column of a table; a null is a NaN."""
    entry: Entry = {"rows": frame.height}
    for name, column in zip(frame.columns, frame.get_columns(), strict=True):
        if column.dtype.is_numeric() or column.dtype == pl.Boolean:
            entry[name] = digest(column.cast(pl.Float64).fill_null(float("nan")).to_numpy())
        else:
            entry[name] = digest_text("\n".join(map(str, column.to_list())))
    return entry


def digest_result(result: gs.Result) -> Iterator[tuple[str, Entry]]:
    """Yield for each algorithm and setting the digests of its rows and of its final models."""
    for (algorithm, setting), models in result.states.items():
        mine = (pl.col("algorithm") == algorithm) & (pl.col("setting") == setting)
        rows = result.frame().filter(mine).drop("algorithm", "setting")
        yield f"{algorithm}({setting})", digest_frame(rows) | {"models": digest(models)}
    if result.biases is not None:
        yield "biases", {"biases": digest(result.biases)}


def digest_study(study: gs.Study) -> Entry:
    """Return the digests of all results of a study, of its summary and of its tuning, with what tuning chose."""
    entries: Entry = {}
    for variant, result in study.results.items():
        entries |= {f"{variant}: {name}".removeprefix(": "): entry for name, entry in digest_result(result)}
    entries["summary"] = digest_frame(study.summary().table)
    if study.tuning is not None:
        entries["tuning"] = digest_frame(study.tuning)
        best = study.tuning.filter("chosen")
        entries["chosen"] = {
            f"{row['variant']}/{row['replicate']}/{row['algorithm']}": row["setting"] for row in best.to_dicts()
        }
    return entries


# --- parts ------------------------------------------------------------------------------------------------------------

NEEDED: dict[str, dict[str, Any]] = {
    "erdos-renyi": {"probability": 0.5},
    "random-regular": {"degree": 4},
    "random-geometric": {"radius": 0.5},
    "spanning-tree": {"of": "torus"},
    "hierarchical": {"cliques": 4, "between": {"name": "ring"}},
    "d-equistatic": {"degree": 4},
    "u-equistatic": {"degree": 4},
    "k-peer-exponential": {"degree": 3},
    "base-graph": {"degree": 2},
    "redrawn-erdos-renyi": {"probability": 0.3},
    "directed-erdos-renyi": {"probability": 0.5},
    "sequence": {"of": [{"name": "ring"}, {"name": "torus"}]},
    "file": {"file": str(ROOT / "tests" / "networks" / "torus16.edges")},
}
"""Options without which a network cannot be made."""

FAILING = {"every": 2, "links_down": 0.1, "agents_asleep": 0.2, "failure_seed": 5}
LOSING = {"links_down": 0.3}
SLEEPING = {"agents_asleep": 0.3, "failure_seed": 7}
OTHER_SIZES = {"hypercube": 64, "random-regular": 30}
MEASURES = ("agents", "stochastic", "changes", "symmetric", "traffic", "pace", "activity", "links", "diameter")


def make_networks() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield every registered network, plain, with faults and with local steps, and those that have no name."""
    for name in NETWORKS:
        given = NEEDED.get(name, {})
        for size in (16,) if name == "file" else (16, OTHER_SIZES.get(name, 45)):
            more = given | ({"cliques": 5} if name == "hierarchical" and size == 45 else {})
            yield f"{name} {size}", lambda name=name, size=size, more=more: gs.networks.make(name, size, **more)
        for label, faults in (("failing", FAILING), ("losing", LOSING), ("sleeping", SLEEPING)):
            yield f"{name} {label}", lambda name=name, more=given | faults: gs.networks.make(name, 16, **more)
    for weights in gs.networks.WEIGHTS:
        yield f"torus {weights}", lambda weights=weights: gs.networks.make("torus", 15, weights=weights)
    barbell = nx.barbell_graph(5, 2)
    yield "barbell", lambda: gs.networks.from_graph(barbell)
    yield "barbell both ways", lambda: gs.networks.directed(barbell.to_directed())


def network_entry(network: Any) -> Entry:
    """Return the digests of W(t), or R(t) and C(t), over 20 rounds, who is awake, and measures."""
    entry: Entry = {name: getattr(network, name) for name in MEASURES} | {"degrees": digest(network.degrees)}
    for over in ("W",) if network.stochastic == "doubly" else ("R", "C"):
        entry[over] = digest(np.stack([network.matrix(t, over).toarray() for t in range(ROUNDS)]))
    if network.activity < 1:
        entry["awake"] = digest(np.stack([np.asarray(network.awake(t)) for t in range(ROUNDS)]))
    if network.gap is not None:
        entry["gap"] = digest(network.gap)
    return entry


def networks() -> Iterator[tuple[str, Entry]]:
    for name, make in make_networks():
        yield name, network_entry(make())


HYPER: dict[str, Any] = {
    "eta": 0.03, "lam": 0.3, "beta": 0.5, "a": 0.3, "gamma": 0.3, "alpha": 0.9, "inner": 0.02, "local": 3,
    "beta1": 0.8, "beta2": 0.9, "eps": 1e-3, "cap": 0.5, "decay": 0.1, "recursions": 2, "corrections": 2,
}  # fmt: skip


def make_rule(name: str) -> Any:
    """Return a rule by name, with a value for every hyper-parameter that we know of."""
    parts = {"compressor": gs.compressors.top_k(k=2), "aggregator": gs.aggregators.clipped(radius=0.1)}
    kind = ALGORITHMS[name]
    fields = kind.__dataclass_fields__
    return kind(**{key: value for key, value in (HYPER | parts).items() if key in fields})


def small_problem(agents: int = 8, dim: int = 5) -> tuple[Any, np.ndarray]:
    """Return quadratics that differ in curvature and centre, and a bias for each agent."""
    rng = np.random.default_rng(3)
    curved = rng.normal(size=(agents, dim, dim))
    problem = gs.problems.quadratic(
        np.eye(dim) + curved @ curved.transpose(0, 2, 1) / dim, rng.normal(size=(agents, dim))
    )
    return problem, 0.1 * rng.normal(size=(agents, dim))


def network_for(name: str) -> Any:
    """Return a network that suits the rule."""
    kind = ALGORITHMS[name]
    if kind.tree:
        return gs.networks.tree(8)
    if kind.needs not in ("doubly", "nothing"):
        return gs.networks.make("directed-erdos-renyi", 8, probability=0.5)
    return gs.networks.make("erdos-renyi", 8, probability=0.5, weights="lazy")


def costs() -> Iterator[tuple[str, Entry]]:
    problem, _ = small_problem()
    oracle = gs.oracles.exact()
    marks = pl.DataFrame({"round": [0, 1, 2, 5, 100], "seed": 0})
    slow = gs.clock("internet", compute=gs.clocks.log_normal(0.01, 1.0), slow={"agents": 2, "factor": 5.0}, seeds=3)

    def entry(rule: Any, network: Any, clocks: dict[str, Any]) -> Entry:
        each: Entry = {}
        for label, clock in clocks.items():
            known, placed = apply_clock(clock, network)
            if not each:
                each |= {key: list(pair) for key, pair in count_costs(rule, problem, placed, oracle, "float64").items()}
            rows = add_seconds(marks, known, rule, problem, placed, oracle, "float64")
            each[label] = digest(rows.drop("round", "seed").cast(pl.Float64).fill_null(float("nan")).to_numpy())
        return each

    for name in ALGORITHMS:
        network = network_for(name)
        yield name, entry(make_rule(name), network, {"internet": "internet", "log-normal": slow})
        if hasattr(ALGORITHMS[name], "wake"):
            yield (
                f"{name} asynchronous",
                entry(make_rule(name), gs.networks.asynchronous(network), {"log-normal": slow}),
            )
    for reduce in ("ring", "tree", "server"):
        clock = gs.clock("internet", compute=gs.clocks.shifted_exponential(0.001, 0.01), reduce=reduce, seeds=2)
        yield f"centralized-sgd {reduce}", entry(make_rule("centralized-sgd"), gs.networks.ring(8), {"clock": clock})
    for links in gs.clocks.REGIONS:
        yield f"biased-dmt {links}", entry(make_rule("biased-dmt"), gs.networks.ring(8), {"clock": links})
    faults = gs.networks.make("torus", 8, **FAILING)
    yield "biased-dmt failing", entry(make_rule("biased-dmt"), faults, {"internet": "internet", "log-normal": slow})


def rules() -> Iterator[tuple[str, Entry]]:
    problem, bias = small_problem()
    oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=bias)
    options: dict[str, Any] = {"steps": ROUNDS, "every": 5, "dtype": "float64", "progress": False}
    for name in ALGORITHMS:
        made, network = make_rule(name), network_for(name)
        yield from digest_result(gs.simulate(made, problem, network, oracle, **options))
        if hasattr(made, "wake"):
            clock, network = gs.clock("internet"), gs.networks.asynchronous(network)
            found = gs.simulate(made, problem, network, oracle, clock=clock, **options)
            yield from ((f"{label} asynchronous", entry) for label, entry in digest_result(found))


def gossip() -> Iterator[tuple[str, Entry]]:
    problems: dict[int, Any] = {}
    failing = ("ring", "exponential", "random-matching", "base-graph", "directed-erdos-renyi")
    for label, make in make_networks():
        if not label.endswith(" 16") and label not in [f"{name} failing" for name in failing]:
            continue  # another program is compiled for each
        network = make()
        n = network.agents
        problem, bias = problems.setdefault(n, small_problem(n, 3))
        rule = gs.DPSGD(eta=0.05) if network.stochastic == "doubly" else gs.PushPull(eta=0.02)
        oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=bias)
        found = gs.simulate(rule, problem, network, oracle, steps=ROUNDS, every=10, dtype="float64", progress=False)
        yield label, next(entry for _, entry in digest_result(found))


def run_spec(contents: dict[str, Any], folder: Path, *options: object) -> gs.Study:
    """Write a spec and run it by the command line; return the study that it stored."""
    for file in (*EXAMPLES.glob("sites.*"), EXAMPLES / "towns.edges", EXAMPLES / "shifts.csv"):
        shutil.copy(file, folder)
    spec = folder / "spec.toml"
    spec.write_text(tomlkit.dumps(contents), encoding="utf-8")
    words = ["run", spec, "--json", "--out", folder / "out", *options]
    if options:  # code of a user's own stays registered: it gets a process of its own
        kept = {name.upper(): str(value) for name, value in SETTINGS.items()}
        command = [sys.executable, "-m", "gossamer", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | kept, check=False)
    else:
        done = gossamer(*words)
    if "is not on this machine" in done.stderr:
        raise FileNotFoundError("its data are not on this machine")
    if done.returncode:
        raise SystemExit(f"golden: a spec failed: {done.stderr}")
    return gs.Study.load(folder / "out")


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gossamer-golden-") as folder:
        yield Path(folder)


def shorten(run: dict[str, Any], steps: int, **others: Any) -> dict[str, Any]:
    """Return a [run] section, or a variant's part of one, of at most so many rounds."""
    changed = {key: value for key, value in run.items() if key not in ("settle", "every", "dtype")}
    changed |= {key: value for key, value in others.items() if key in run or key not in ("seeds", "settle")}
    return changed | ({"steps": min(run["steps"], steps)} if "steps" in run else {})


def examples() -> Iterator[tuple[str, Entry]]:
    for path in sorted(EXAMPLES.glob("*.toml")):
        contents = tomllib.loads(path.read_text(encoding="utf-8"))
        contents["run"] = shorten(contents["run"], STEPS) | {"every": 20, "dtype": "float64"}
        for variant in contents.get("variant", []):
            variant["run"] = shorten(variant.get("run", {}), STEPS)
        own = ("--with", EXAMPLES / "own_parts.py") if path.stem == "own-parts" else ()
        with scratch() as folder:
            try:
                study = run_spec(contents, folder, *own)
            except FileNotFoundError as error:
                print(f"{path.stem}: left out: {error}")
                continue
            for name, entry in digest_study(study).items():
                yield f"{path.stem}: {name}", entry


COMPARED = ("biased-dmt", "biased-dsgd", "dsgdm", "gt-dsgd")


def experiment(name: str) -> Iterator[tuple[str, Entry]]:
    contents, steps = tomllib.loads(text_of(name)), STEPS
    if name in ("fig1", "fig2"):  # longer, and with less of everything
        steps = 2 * STEPS
        contents["algorithm"] = [one for one in contents["algorithm"] if one["name"] in COMPARED]
        contents["variant"] = [one for one in contents.get("variant", []) if not one["name"].startswith("redrawn")]
    run = shorten(contents["run"], steps, seeds=2, every=[20, 60], seeds_together=1, together=4)
    contents["run"] = run | {"settle": 2 * run["steps"]} if "settle" in contents["run"] else run
    tuning = {"budget": 4, "together": 4, "replicates": 2, "seeds": 1, "refine": False}
    for variant in contents.get("variant", []):
        changed = shorten(variant.get("run", {}), steps)
        variant["run"] = {key: value for key, value in changed.items() if key not in ("seeds", "seeds_together")}
    if "tuning" in contents:
        kept = {key: value for key, value in contents["tuning"].items() if key not in ("lam", "beta", "grids")}
        near = {"target": 0.65} if "target" in kept else {}  # which so few rounds reach
        contents["tuning"] = kept | tuning | near | {"lam": [1.0, 0.1], "beta": [0.0, 0.9]}
    with scratch() as folder:
        study = run_spec(contents, folder)
        yield from digest_study(study).items()
        for number, verdict in enumerate(judge({name: study})):
            known = [] if verdict.interval is None else verdict.interval
            entry = {"claim": verdict.claim, "verdict": verdict.verdict, "interval": digest(known)}
            yield f"verdict {number}", entry


def report() -> Iterator[tuple[str, Entry]]:
    """Yield a digest for each key of the JSON about each study that a report holds."""
    contents = tomllib.loads((EXAMPLES / "time-varying.toml").read_text(encoding="utf-8"))
    contents["run"] |= {"steps": STEPS, "every": 10, "seeds": 2}
    with scratch() as folder:
        page = run_spec(contents, folder).report(folder / "report.html").read_text(encoding="utf-8")
    for name, text in re.findall(r'<script type="application/json" id="([^"]+)">(.*?)</script>', page, re.DOTALL):
        held = json.loads(unescape(text))
        for number, study in enumerate(held if isinstance(held, list) else [held]):
            yield f"{name} {number}", {key: digest_text(json.dumps(value)) for key, value in study.items()}


PARTS: dict[str, Callable[[], Iterable[tuple[str, Entry]]]] = {
    "networks": networks,
    "costs": costs,
    "rules": rules,
    "gossip": gossip,
    "examples": examples,
    "report": report,
    **{f"experiment-{name}": lambda name=name: experiment(name) for name in EXPERIMENTS},
}


# --- files and comparison ---------------------------------------------------------------------------------------------


def machine() -> dict[str, str]:
    """Return what the bits of a compiled program depend on besides the program."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {"processor": model, **{name: version(name) for name in ("jax", "jaxlib", "numpy", "scipy")}}


def file_of(part: str) -> Path:
    return RESULTS / f"{part}.json"


def write(part: str) -> None:
    """Compute a part and write its file: one line for each entry."""
    entries = dict(PARTS[part]())
    lines = [
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(entry, ensure_ascii=False)}"
        for name, entry in entries.items()
    ]
    RESULTS.mkdir(exist_ok=True)
    text = '{"machine": ' + json.dumps(machine()) + ',\n"entries": {\n' + ",\n".join(lines) + "\n}}\n"
    file_of(part).write_text(text, encoding="utf-8")


def is_exact(part: str) -> bool:
    """Return True if a part is compared to the bit: its file was written under the versions that are installed."""
    return machine_of(part) | {"processor": ""} == machine() | {"processor": ""}


def machine_of(part: str) -> dict[str, str]:
    """Return where a part was written."""
    return json.loads(file_of(part).read_text(encoding="utf-8"))["machine"]


def compare(part: str) -> list[str]:
    """Compute a part again; return a line for each value that differs from its file."""
    golden, exact = json.loads(file_of(part).read_text(encoding="utf-8"))["entries"], is_exact(part)
    found = json.loads(json.dumps(dict(PARTS[part]())))
    lines = [f"{part}: {name}: is no longer there" for name in golden if name not in found]
    lines += [f"{part}: {name}: is new" for name in found if name not in golden]
    for name in golden.keys() & found.keys():
        was, now = golden[name], found[name]
        for key in {**was, **now}:
            to_the_bit = exact and key not in LAPACK
            if was.get(key) != now.get(key) and (to_the_bit or not _is_near(was.get(key), now.get(key))):
                lines.append(f"{part}: {name}: {key}: {_moved(was.get(key), now.get(key))}")
    return sorted(lines)


def _is_near(was: Any, now: Any) -> bool:
    """Return True if numbers, or those beside two digests, are equal up to TOLERANCE."""
    if isinstance(was, float) and isinstance(now, float):
        was, now = [was], [now]
    if not (isinstance(was, list) and isinstance(now, list) and len(was) == len(now)):
        return False
    numbers = [pair for pair in zip(was, now, strict=True) if not isinstance(pair[0], str)]  # the first is the digest
    largest = max((abs(a) for a, _ in numbers), default=0.0)
    return all(abs(a - b) <= TOLERANCE * max(largest, 1e-3) for a, b in numbers)


def _moved(was: Any, now: Any) -> str:
    if was is None or now is None:
        return "is new" if was is None else "is no longer there"
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now) and len(was) > 1:
        pairs = [(a, b) for a, b in zip(was, now, strict=True) if isinstance(a, float) and isinstance(b, float)]
        if pairs:
            far = max(abs(a - b) / max(abs(a), abs(b), 1e-300) for a, b in pairs)
            shown = ", ".join(f"{a!r} → {b!r}" for a, b in pairs)
            return f"moved, by {far:.1e} relative in the numbers kept: {shown}"
    return f"{was!r} → {now!r}"


def main(words: list[str]) -> int:
    if not words or words[0] not in ("write", "compare") or set(words[1:]) - {*PARTS, "experiments"}:
        print(
            f"python -m tests.golden write|compare [PART …]; parts: {', '.join(PARTS)}, or experiments for all of them"
        )
        return 2
    for name, value in SETTINGS.items():
        jax.config.update(name, value)
    chosen = [part for word in words[1:] for part in PARTS if part == word or part.startswith(f"{word.rstrip('s')}-")]
    moved = False
    for part in chosen or PARTS:
        began = time.process_time()
        if words[0] == "write":
            write(part)
            said = "written"
        else:
            lines, exact = compare(part), is_exact(part)
            moved |= bool(lines)
            said = "identical" if exact else f"equal within {TOLERANCE:g}, not compared to the bit"
            if lines:
                said = "\n".join([f"{len(lines)} moved", *lines])
            if (lines or not exact) and (written := machine_of(part)) != machine():
                said += f"\n(written on {written}; this is {machine()}, on which last bits may differ)"
        print(f"{part}: {said} ({time.process_time() - began:.0f} s of CPU)", flush=True)
    return int(moved)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
