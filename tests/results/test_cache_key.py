"""Cache keys: the same in every process, another after any change that could decide a number."""

import functools
import importlib
import importlib.util
import itertools
import linecache
import os
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.simulator import plan_run
from gossamer.results import provenance
from gossamer.results.cache_key import Unknown, digest
from gossamer.specs.schema import RunSection
from gossamer.specs.setup import Setup

ROOT = Path(__file__).parents[2]
SOURCE = Path(gs.__file__).resolve().parent
MODULE = Path(__file__).with_name("own_code.py").read_text(encoding="utf-8")
COUNTER = itertools.count()


@pytest.fixture
def load(tmp_path):
    """Import a file of this text, under a name of its own."""

    def loaded(text: str, file: str | None = None) -> Any:
        name = file or f"own_{next(COUNTER)}"
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    before = set(sys.modules)
    yield loaded
    for name in set(sys.modules) - before:
        del sys.modules[name]


def digests(module):
    return {name: digest(value) for name, value in module.OBJECTS.items()}


OWN = {*("closure", "lambda", "partial", "class", "object", "method", "jitted", "curved", "rule", "oracle", "schedule")}
OWN |= {"problem"}
"""Objects that hold code of the file."""


def test_a_changed_file_shows_in_all_that_hold_its_code_and_nowhere_else(load):
    before = digests(load(MODULE))
    assert digests(load(MODULE)) == before
    for old, new in (
        ("SCALE = 0.5", "SCALE = 0.25"),
        ("2.0 * primals", "3.0 * primals"),
        ("targets) **", "targets)  **"),
    ):
        assert old in MODULE
        after = digests(load(MODULE.replace(old, new)))
        assert {name for name in after if after[name] != before[name]} == OWN


def scaled(module):
    module.SCALE = 0.25


def lengthened(module):
    module.TABLE["a"][1] = 3


def shifted(module):
    module.TABLE["b"][0][1] = 7.0


def reduced(module):
    module.NAMES.discard("w")


def reattributed(module):
    module.Base.factor = 3.0


def replaced(module):
    module.Child.twice = staticmethod(lambda g: 3 * g)


def rebound(module):
    module.OBJECTS["partial"].keywords["g"][0] = 7.0


def redefaulted(module):
    module.OBJECTS["closure"].__defaults__ = (2.0,)


USES_HELPER = {"closure", "partial", "class", "object", "method", "jitted", "rule", "oracle"}
AT_RUN_TIME = {
    scaled: USES_HELPER | {"lambda", "schedule"},
    lengthened: {"closure", "oracle"},
    shifted: {"closure", "oracle"},
    reduced: {"closure", "oracle"},
    reattributed: {"class", "object", "method"},
    replaced: {"class", "object", "method"},
    rebound: {"partial"},
    redefaulted: {"closure"},
}


@pytest.mark.parametrize("change", AT_RUN_TIME)
def test_a_value_that_changes_while_the_file_stays_shows_in_all_that_use_it(change, load):
    module = load(MODULE)
    before = digests(module)
    change(module)
    after = digests(module)
    assert {name for name in after if after[name] != before[name]} == AT_RUN_TIME[change]


def test_numbers_of_our_own_objects_count():
    stages = [gs.oracles.minibatch(size) | gs.oracles.top_k(share=share) for size in (4, 8) for share in (0.1, 0.2)]
    problems = [gs.problems.logistic("breast-cancer", agents=4, alpha=alpha) for alpha in (0.0, 0.1)]
    networks = [
        gs.networks.ring(4),
        gs.networks.ring(5),
        gs.networks.complete(4),
        gs.networks.star(4),
    ]
    found = [digest(value) for value in (*stages, *problems, *networks)]
    assert len({*found}) == len(found)


def test_every_process_finds_the_same(tmp_path):
    """With other seeds of hashing, with the module's byte code read from a cache, and with it compiled."""
    (tmp_path / "own.py").write_text(MODULE, encoding="utf-8")
    code = (
        "import own, json; from gossamer.results import cache_key, provenance\n"
        "print(json.dumps([provenance.rooms(), {k: cache_key.digest(v) for k, v in own.OBJECTS.items()}]))"
    )
    found = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{tmp_path}:{SOURCE.parent}"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        found.add(done.stdout)
    assert len(found) == 1
    assert provenance.rooms()["core"] in found.pop()


IMPORTING = {
    "at the top": "import mine_helpers\ndef f(g): return mine_helpers.scale(g)",
    "a name": "from mine_helpers import scale\ndef f(g): return scale(g)",
    "in two steps": "import mine_between\ndef f(g): return mine_between.scale(g)",
    "of a package": "from mine_package.inner import scale\ndef f(g): return scale(g)",
    "of a namespace": "import mine_space.deep\ndef f(g): return mine_space.deep.scale(g)",
    "in an object": "import mine_helpers\nheld = [mine_helpers]\ndef f(g): return held[0].scale(g)",
}


@pytest.mark.parametrize("how", IMPORTING)
def test_functions_of_the_users_other_files_count(how, tmp_path, load, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_between.py").write_text("from mine_helpers import *")
    (tmp_path / "mine_space").mkdir()
    (tmp_path / "mine_package").mkdir()
    (tmp_path / "mine_package" / "__init__.py").touch()
    (tmp_path / "mine_package" / "inner.py").write_text("from .deep import scale")

    def found(factor):
        for place in ("mine_helpers.py", "mine_package/deep.py", "mine_space/deep.py"):
            (tmp_path / place).write_text(f"def scale(g): return {factor} * g")
        for name in [name for name in sys.modules if name.startswith("mine_")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
        first = digest(load(IMPORTING[how], "mine_own").f)
        sys.dont_write_bytecode = kept
        return first

    assert found(2) != found(3)
    assert found(2) == found(2)


def test_a_value_in_an_own_module_counts(tmp_path, load, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_values.py").write_text("SCALE = 2.0")
    module = load("import mine_values\ndef f(g): return mine_values.SCALE * g")
    before = digest(module.f)
    vars(sys.modules["mine_values"])["SCALE"] = 3.0
    assert digest(module.f) != before


@pytest.mark.parametrize("line", ["import os, mine_inside", "from mine_inside import g", "from . import g"])
def test_an_own_module_that_is_imported_inside_a_function_leaves_no_key(line, tmp_path, load, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_inside.py").write_text("g = 2.0")
    module = load(f"def f(g):\n    {line}\n    return g\n")
    with pytest.raises(Unknown, match="inside a function, where it cannot be followed: import it at the top"):
        digest(module.f)
    digest(load("def f(g):\n    import json, jax\n    return g\n").f)


def test_a_file_that_was_edited_since_it_was_imported_has_no_key(tmp_path, load):
    """Its text is not what this process runs: the numbers would be stored under the wrong source."""
    module = load("def f(g): return 2 * g\n\n\ndef h(g): return g", "mine_edited")
    digest(module.f)
    (tmp_path / "mine_edited.py").write_text("def f(g): return 3 * g\n\n\ndef h(g): return g")
    with pytest.raises(Unknown, match=r"mine_edited\.py is not what f was loaded from: start again"):
        digest(module.f)
    (tmp_path / "mine_edited.py").write_text("def f(:")
    with pytest.raises(Unknown, match="is not Python any more"):
        digest(module.f)
    (tmp_path / "mine_edited.py").unlink()
    with pytest.raises(Unknown, match="the source of the function f cannot be found"):
        digest(module.f)


def test_a_function_that_ran_often_is_still_that_of_its_file(load):
    module = load("def f(n):\n    total = 0\n    for k in range(n):\n        total += k * 2.0\n    return total")
    before = digest(module.f)
    for _ in range(200):
        module.f(100)
    assert digest(module.f) == before


def test_code_without_source_has_no_key_and_a_cell_of_a_notebook_has_one():
    space: dict[str, Any] = {"__name__": "__main__"}
    text = "SCALE = 2.0\ndef f(g): return SCALE * g\n"
    exec(compile(text, "<cell 1>", "exec"), space)
    with pytest.raises(Unknown, match="the source of the function f cannot be found: define it in a file"):
        digest(space["f"])
    linecache.cache["<cell 1>"] = len(text), None, text.splitlines(keepends=True), "<cell 1>"
    try:
        first = digest(space["f"])
        space["SCALE"] = 3.0
        assert digest(space["f"]) != first
    finally:
        del linecache.cache["<cell 1>"]


def test_lambdas_of_one_name_differ():
    assert digest(lambda g: g) != digest(lambda g: 2 * g)
    two = gs.metrics.METRICS
    assert digest(two["loss"].measure) != digest(two["consensus"].measure)


def test_functions_that_call_each_other_end(load):
    module = load("def even(n): return n == 0 or odd(n - 1)\n\n\ndef odd(n): return n > 0 and even(n - 1)")
    assert digest(module.even) != digest(module.odd)
    ring = []
    ring.append(ring)
    with pytest.raises(Unknown, match="nested too deep"):
        digest(lambda: ring)


@pytest.mark.parametrize("kind", ["lock", "file", "generator"])
def test_what_has_no_state_has_no_key(kind):
    with open(os.devnull) as file:
        held = {"lock": threading.Lock(), "file": file, "generator": (i for i in range(3))}[kind]
        with pytest.raises(Unknown, match="has neither code nor a state to be known by"):
            digest(lambda g: (held, g))


def test_what_packages_bring_is_known_by_name():
    values: list[Any] = [jnp.sin, np.sin, jax.nn.relu, functools.reduce, len, str.join, np.linalg.norm]
    found = [digest(value) for value in [*values, jax.random.normal, jnp.cos]]
    assert len({*found}) == len(found)


def test_a_lazily_filled_cache_is_no_change():
    class Lazy:
        @functools.cached_property
        def value(self):
            return np.ones(3)

    one = Lazy()
    first = digest(one)
    assert one.value.sum() == 3
    assert digest(one) == first


def key_of(rule, oracle=None, problem=None):
    problem = problem or gs.problems.logistic("breast-cancer", agents=4)
    network = gs.networks.ring(4)
    plan, seeds = plan_run(1, None, 1, "float32")
    parts = problem, network, oracle or gs.oracles.exact()
    return Setup([], *parts, plan, seeds, RunSection(steps=1)).key_of(rule)


def test_a_key_holds_all_that_computes():
    key = key_of(gs.DPSGD(0.1))["made by"]
    ours = {name for name in key if name.startswith("gossamer.")}
    assert {*key} - ours == {"yours", "parts", "kernels", "jax", "jaxlib", "device", "cpu"}
    assert {name: key[f"gossamer.{name}"] for name in provenance.rooms()} == provenance.rooms()
    assert key["kernels"] == "xla"


def test_a_key_changes_with_an_own_oracle_other_data_and_another_room(monkeypatch):
    first = key_of(gs.DPSGD(0.1))
    assert key_of(gs.DPSGD(0.1)) == first
    assert key_of(gs.DPSGD(0.1), gs.oracles.custom(lambda g, x, site: g)) != first
    assert key_of(gs.DPSGD(0.1), problem=gs.problems.logistic("breast-cancer", agents=4, split="iid")) != first
    monkeypatch.setitem(provenance._ROOMS, "algorithms", "other source")
    assert key_of(gs.DPSGD(0.1)) != first


def test_a_key_of_what_cannot_be_known_says_why():
    lock = threading.Lock()
    key = key_of(gs.DPSGD(0.1), gs.oracles.custom(lambda g, x, site: (lock, g)[1]))
    assert list(key["made by"]) == ["unknown"]
    assert "lock" in key["made by"]["unknown"]


def test_the_rooms_that_count_are_those_up_to_the_engine():
    """By the contract of import-linter, so that no list is kept by hand."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in known if one["type"] == "layers")
    at = next(number for number, layer in enumerate(layers) if "engines" in layer.split(" | "))
    below = {room for layer in layers[at + 1 :] for room in layer.split(" | ")} | {"engines", "__init__"}
    assert {*provenance.rooms()} == below
    assert {*provenance.ABOVE} == {room for layer in layers[:at] for room in layer.split(" | ")} | {"torch"}


def test_a_room_is_known_by_every_file_of_it(tmp_path):
    for file in ("core/rules.py", "core/deep/inner.py", "schedules.py", "cli/run.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("a = 1")
    before = provenance.digest_rooms(tmp_path)
    assert {*before} == {"core", "schedules"}
    (tmp_path / "core" / "deep" / "inner.py").write_text("a = 2")
    after = provenance.digest_rooms(tmp_path)
    assert [room for room in after if after[room] != before[room]] == ["core"]
    (tmp_path / "core" / "deep" / "inner.py").rename(tmp_path / "core" / "deep" / "other.py")
    assert provenance.digest_rooms(tmp_path)["core"] != after["core"]
