"""Parts of a user's own in a file or a package: named in a spec, tuned, stored and reported by the command line."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gossamer as gs
from gossamer.algorithms import ALGORITHMS
from gossamer.compressors import COMPRESSORS
from gossamer.data import DATASETS
from gossamer.metrics import METRICS
from gossamer.networks import NETWORKS
from gossamer.oracles import STAGES
from gossamer.problems import PROBLEMS
from gossamer.results.store import Store
from gossamer.results.study import Study
from gossamer.specs.catalogue import load_file
from tests.commands import gossamer
from tests.table import table

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALLER = {
    "steps = 300": "steps = 40",
    "every = 30": "every = 10",
    "seeds = 4": "seeds = 2",
    "budget = 8": "budget = 4",
}
REGISTRIES: tuple[Any, ...] = (ALGORITHMS, COMPRESSORS, DATASETS, NETWORKS, PROBLEMS, STAGES)


@pytest.fixture(autouse=True)
def _nothing_stays():
    """What a test adds is known in that test only."""
    before = [dict(registry._added) for registry in REGISTRIES]
    yield
    for registry, added in zip(REGISTRIES, before, strict=True):
        registry._added.clear()
        registry._added.update(added)


@pytest.fixture
def files(tmp_path):
    """A smaller form of the example: the spec, and the file of code."""
    text = (EXAMPLES / "own-parts.toml").read_text(encoding="utf-8")
    for old, new in SMALLER.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
    code = tmp_path / "own_parts.py"
    code.write_text((EXAMPLES / "own_parts.py").read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path / "spec.toml", code


def command(*words):
    """The exit code of a command, and what it printed and said."""
    done = gossamer(*words)
    return done.returncode, done.stdout, done.stderr


def same(first, second):
    assert first.result.table.equals(second.result.table)
    for key, models in first.result.states.items():
        assert models.tobytes() == second.result.states[key].tobytes()
    assert first.tuning.equals(second.tuning)


def test_a_file_of_parts_is_run_interrupted_resumed_changed_plotted_and_reported(files, tmp_path, monkeypatch):
    spec, code = files
    exit_code, printed, told = command("run", spec, "--with", code, "--out", tmp_path / "whole")
    assert exit_code == 0, told
    assert "tracked-heavy-ball" in printed
    assert "farthest" in printed
    whole = Study.load(tmp_path / "whole")

    puts, put = [], Store.put

    def interrupted(store, key, arrays):
        put(store, key, arrays)
        puts.append(key)
        if len(puts) == 5:
            raise MemoryError("the fifth cell is the last")

    monkeypatch.setattr(Store, "put", interrupted)
    with pytest.raises(MemoryError):
        command("run", spec, "--with", code, "--out", tmp_path / "killed")
    monkeypatch.setattr(Store, "put", put)
    assert command("run", spec, "--with", code, "--out", tmp_path / "killed")[0] == 0
    same(whole, Study.load(tmp_path / "killed"))

    text = code.read_text(encoding="utf-8")
    code.write_text(text.replace("(1 - self.kept) * s.v", "(1 - self.kept) * 0.9 * s.v"), encoding="utf-8")
    exit_code, _, told = command("run", spec, "--with", code, "--out", tmp_path / "whole")
    assert exit_code == 0
    assert "the code changed since" in told
    changed, before = Study.load(tmp_path / "whole").result.final("loss"), whole.result.final("loss")
    assert (changed["tracked-heavy-ball"] != before["tracked-heavy-ball"]).all()
    np.testing.assert_array_equal(changed["biased-dmt"], before["biased-dmt"])

    METRICS.pop("farthest")  # as in a process that never saw the file
    exit_code, printed, told = command("plot", tmp_path / "whole", "--metric", "farthest")
    assert exit_code == 0, told
    assert "farthest-rounds.pdf" in printed
    assert command("report", tmp_path / "whole")[0] == 0
    assert "farthest agent, max ‖xᵢ − x̄‖²" in (tmp_path / "whole" / "report.html").read_text(encoding="utf-8")


def test_a_changed_maker_of_a_network_or_an_oracle_recomputes(files, tmp_path):
    spec, code = files
    text = code.read_text(encoding="utf-8")
    assert command("tune", spec, "--with", code, "--out", tmp_path / "run")[0] == 0
    for old, new in (
        ("nx.barbell_graph(agents // 2, agents % 2)", "nx.star_graph(agents - 1)"),
        ("0, g)", "0.5 * g, g)"),
    ):
        code.write_text(text.replace(old, new), encoding="utf-8")
        _, _, told = command("tune", spec, "--with", code, "--out", tmp_path / "run")
        assert "the code changed since" in told, new


def test_without_its_file_a_spec_says_what_it_does_not_know(files, tmp_path):
    exit_code, _, told = command("run", files[0], "--out", tmp_path / "out")
    assert exit_code == 2
    assert "'barbell' is not a network" in told
    assert not (tmp_path / "out").exists()


@table(
    ("text", "message"),
    [
        ("def f(:", "line 1, is not Python"),
        ("import gossamer as gs\n\n\n1 / 0", r"line 4, in <module>: '1 / 0'. ZeroDivisionError"),
        (
            "import gossamer as gs\n@gs.networks.register('ring')\ndef f(agents): ...",
            "'ring' is one of Gossamer's own networks",
        ),
        (
            "import gossamer as gs\n@gs.networks.register('My net')\ndef f(agents): ...",
            "must be small letters and digits",
        ),
        ("import gossamer as gs\n@gs.rule('m')\nclass M:\n    eta: gs.StepSize", "the rule M has no init"),
        (
            "import gossamer as gs\n@gs.rule('m')\nclass M:\n    def init(self): ...",
            r"the rule M has init\(self\): it needs",
        ),
        ("import gossamer as gs\n@gs.rul('m')\nclass M: ...", "line 2, in <module>: .* did you mean 'rule'"),
    ],
)
def test_a_file_that_fails_is_told_with_its_line(text, message, tmp_path):
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    with pytest.raises(gs.InputError, match=message):
        load_file(tmp_path / "mine.py")
    assert "gossamer_own_mine" not in sys.modules


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(gs.InputError, match=r"there is no file .*mine\.py to take code from"):
        load_file(tmp_path / "mine.py")


def test_an_installed_package_offers_its_own(monkeypatch):
    point = type("Point", (), {"name": "offered", "value": "elsewhere:f", "dist": None, "load": lambda self: deaf})()
    broken = type("Point", (), {"name": "broken", "value": "nowhere:f", "dist": None, "load": lambda self: 1 / 0})()
    monkeypatch.setitem(vars(STAGES), "_entry_points", {"offered": point, "broken": broken})
    assert STAGES["offered"] is deaf
    assert {"offered", "broken"} <= set(STAGES)
    with pytest.raises(gs.InputError, match="the kind of oracle stage 'broken' of a package cannot be imported"):
        STAGES["broken"]


def deaf():
    return gs.oracles.custom(lambda g, x, site: 0 * g)
