"""Fingerprints of code: the same in every process, another after any change that could decide a number."""

import ast
import functools
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.simulator import planned
from gossamer.results import fingerprint, provenance
from gossamer.specs.experiment import Experiment
from gossamer.specs.sections import RunSection

SOURCE = Path(gs.__file__).resolve().parent

MODULE = Path(__file__).with_name("own_code.py").read_text(encoding="utf-8")


def loaded(text, name="own") -> Any:
    """The objects of a module that is run from its text, without a file: as in a notebook."""
    space = {"__name__": name}
    exec(compile(text, "<notebook>", "exec"), space)
    return space["OBJECTS"]


def prints(text):
    return {name: fingerprint.of(value) for name, value in loaded(text).items()}


CHANGES = {
    "a constant of a closure": ("made(3.0)", "made(4.0)", {"closure"}),
    "a default": ("shift=1.0", "shift=2.0", {"closure", "oracle"}),
    "a global number": (
        "SCALE = 0.5",
        "SCALE = 0.25",
        {*("closure", "lambda", "partial", "class", "object", "method", "jitted", "rule", "oracle", "schedule")},
    ),
    "a helper": (
        "return SCALE * g",
        "return SCALE * g + 0.0",
        {*("closure", "partial", "class", "object", "method", "jitted", "rule", "oracle")},
    ),
    "a global container": ('{"a": [1, 2]', '{"a": [1, 3]', {"closure", "oracle"}),
    "an array in it": ("np.arange(3.0), None", "np.arange(3.0) + 1, None", {"closure", "oracle"}),
    "a set": ('"z", "w"}', '"z", "v"}', {"closure", "oracle"}),
    "an attribute of a base": ("factor = 2.0", "factor = 3.0", {"class", "object", "method"}),
    "a property": ("return 3", "return 4", {"class", "object", "method"}),
    "a static method": ("return g * 2", "return g * 3", {"class", "object", "method"}),
    "what jit wraps": ("jnp.tanh(", "jnp.sin(", {"jitted"}),
    "a derivative": ("2.0 * primals", "3.0 * primals", {"curved"}),
    "a rule": ("s.x) - self.eta", "s.x) + self.eta", {"rule"}),
    "a loss": ("targets) ** 2", "targets) ** 4", {"problem"}),
    "an array that is bound": ("np.ones(2)", "np.zeros(2)", {"partial"}),
    "a number of ours": ("share=0.1", "share=0.2", {"compressor"}),
    "a number of an oracle": ("minibatch(4)", "minibatch(8)", {"oracle"}),
}


@pytest.fixture(scope="module")
def before():
    return prints(MODULE)


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_shows_in_all_that_use_it_and_nowhere_else(what, before):
    old, new, touched = CHANGES[what]
    assert old in MODULE
    after = prints(MODULE.replace(old, new))
    assert {name for name in after if after[name] != before[name]} == touched


def test_comments_and_empty_lines_change_nothing(before):
    changed = MODULE.replace("def helper", "# a word\n\n\ndef helper").replace(
        "return SCALE * g", "# b\n    return SCALE * g"
    )
    assert changed != MODULE
    assert prints(changed) == before


def test_every_process_finds_the_same(tmp_path):
    """With other seeds of hashing, with the module's byte code read from a cache, and with it compiled."""
    (tmp_path / "own.py").write_text(MODULE, encoding="utf-8")
    code = (
        "import own, json; from gossamer.results import fingerprint, provenance\n"
        "print(json.dumps([provenance.code(), {k: fingerprint.of(v) for k, v in own.OBJECTS.items()}]))"
    )
    found = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{tmp_path}:{SOURCE.parent}"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        found.add(done.stdout)
    assert len(found) == 1
    assert provenance.code() in found.pop()


def test_a_module_of_the_user_counts_by_what_is_used(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def found(text):
        (tmp_path / "mine_own.py").write_text(text, encoding="utf-8")
        sys.modules.pop("mine_own", None)
        space = {}
        exec("import mine_own\ndef f(g): return mine_own.scale(g)", space)
        exec("def h(g):\n from mine_own import scale\n return scale(g)", space)
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        return fingerprint.of(space["f"]), fingerprint.of(space["h"])

    first = found("def scale(g): return 2 * g\ndef other(g): return g")
    assert found("def scale(g): return 2 * g\ndef other(g): return -g") == first
    other = found("def scale(g): return 3 * g\ndef other(g): return g")
    assert [new != old for new, old in zip(other, first, strict=True)] == [True, True]


def test_functions_that_call_each_other_end():
    space = {}
    exec("def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n > 0 and even(n - 1)", space)
    assert fingerprint.of(space["even"]) != fingerprint.of(space["odd"])
    ring = []
    ring.append(ring)
    assert fingerprint.of(lambda: ring)


@pytest.mark.parametrize("kind", ["lock", "file", "generator"])
def test_what_has_no_state_to_be_known_by_is_said(kind):
    with open(os.devnull) as file:
        held = {"lock": threading.Lock(), "file": file, "generator": (i for i in range(3))}[kind]
        with pytest.raises(fingerprint.Unknown, match="has neither code nor a state to be known by"):
            fingerprint.of(lambda g: (held, g))


def test_what_packages_bring_is_known_by_name():
    values: list[Any] = [jnp.sin, np.sin, jax.nn.relu, functools.reduce, len, str.join, np.linalg.norm]
    for value in [*values, jax.random.normal]:
        assert fingerprint.of(lambda g, value=value: value(g)) == fingerprint.of(lambda g, value=value: value(g))
    assert fingerprint.of(jnp.sin) != fingerprint.of(jnp.cos)


def test_a_lazily_filled_cache_is_no_change():
    class Lazy:
        @functools.cached_property
        def value(self):
            return np.ones(3)

    one = Lazy()
    first = fingerprint.of(one)
    assert one.value.sum() == 3
    assert fingerprint.of(one) == first


def key_of(rule, oracle=None, problem=None):
    problem = problem or gs.problems.logistic("breast-cancer", agents=4)
    network = gs.networks.ring(4)
    plan, seeds = planned(1, None, 1, "float32")
    made_of = [], problem, network, oracle or gs.oracles.exact()
    return Experiment(*made_of, plan, seeds, RunSection(steps=1)).key_of(rule)


def test_a_key_holds_all_that_computes():
    key = key_of(gs.DPSGD(0.1))["made by"]
    assert set(key) == {"gossamer", "yours", "kernels", "jax", "jaxlib", "device", "cpu"}
    assert key["gossamer"] == provenance.code()
    assert key["kernels"] == "xla"


def test_a_key_changes_with_an_own_oracle_and_a_replaced_method(monkeypatch):
    first = key_of(gs.DPSGD(0.1))
    assert key_of(gs.DPSGD(0.1)) == first
    assert key_of(gs.DPSGD(0.1), gs.oracles.custom(lambda g, x, site: g)) != first
    monkeypatch.setattr(gs.DPSGD, "step", lambda self, s, agent: s)
    assert key_of(gs.DPSGD(0.1)) != first


def test_a_key_of_what_cannot_be_known_says_why():
    lock = threading.Lock()
    key = key_of(gs.DPSGD(0.1), gs.oracles.custom(lambda g, x, site: (lock, g)[1]))
    assert list(key["made by"]) == ["unknown"]
    assert "lock" in key["made by"]["unknown"]


def test_data_of_our_own_objects_may_be_left_to_the_caller():
    sizes = [gs.problems.logistic("breast-cancer", agents=4, alpha=alpha) for alpha in (0.0, 0.1)]
    assert fingerprint.of(sizes[0]) != fingerprint.of(sizes[1])
    assert fingerprint.of(sizes[0], data=False) == fingerprint.of(sizes[1], data=False)


def file_of(module):
    path = SOURCE / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imported(module):
    """The modules of ours that one imports."""
    for node in ast.walk(ast.parse(file_of(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gossamer":
            for one in node.names:
                inner = f"{node.module}.{one.name}"
                whole = inner if file_of(inner.removeprefix("gossamer.")).is_file() else str(node.module)
                yield whole.removeprefix("gossamer.")


def test_any_module_that_a_run_imports_counts():
    """From what computes, and all that a spec can name, every module of ours that is reached."""
    reached, ahead = (
        set(),
        ["engines.runs", "algorithms", "compressors", "networks", "oracles", "problems", "schedules"],
    )
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += imported(name)
    wanted = {"core.rules", "engines.program", "engines.block", "networks.mixing.static", "data.splits"}
    assert wanted | {"results.store", "results.npz"} <= reached
    outside = {name.removesuffix(".py").replace("/", ".") for name in provenance.OUTSIDE}
    assert {name for name in reached if name in outside or name.split(".")[0] in outside} == set()


def test_the_modules_that_do_not_count_are_there():
    assert all((SOURCE / name).exists() for name in provenance.OUTSIDE)
