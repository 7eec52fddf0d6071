"""A run that goes on is shown from its store, to this machine alone, and the server ends by itself."""

import json
import re
import shutil
import threading
import urllib.error
import urllib.request
from queue import Queue

import pytest

from gossamer.core import InputError
from gossamer.experiments.running import run
from gossamer.report import live, names, serving
from gossamer.specs.spec import Spec
from tests.report.made_up import HOSTILE

SPEC = {
    "title": HOSTILE,
    "problem": {
        "name": "quadratic",
        "A": [[2.0, 0.5], [0.5, 1.0]],
        "b": [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [0.5, -1.0]],
    },
    "network": {"name": "ring"},
    "oracle": {"stages": [{"kind": "additive-bias", "mean": 0.1, "std": 0.1, "redraw": False}]},
    "run": {"steps": 20, "every": 5, "seeds": 2, "dtype": "float64"},
    "algorithm": [{"name": "dsgt", "eta": 0.05}],
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched") / "run"
    return folder, run(Spec.of(SPEC), folder, progress=False)


@pytest.fixture
def begun(done, tmp_path):
    """The directory as it is while the run goes on: with cells, without a study."""
    folder = tmp_path / "run"
    shutil.copytree(done[0], folder)
    (folder / "study.json").unlink()
    return folder


@pytest.fixture
def served(begun, monkeypatch):
    monkeypatch.setattr(serving, "LEAST", 0.0)
    monkeypatch.setattr(serving, "GRACE", 0.2)
    told: Queue = Queue()
    thread = threading.Thread(target=lambda: told.put(serving.serve(begun, 0, 60.0, told.put)), daemon=True)
    thread.start()
    return begun, told.get(timeout=30), told


def asked(address, path="", host=None):
    request = urllib.request.Request(address + path, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


def test_what_is_finished_is_what_the_run_gives(begun, done):
    running = live.Running(begun)
    study, state = running._study(begun)
    assert not running.finished
    assert state.startswith("running: 2 runs so far, up to round 20; last written ")
    (shown,), (whole,) = study.results.values(), done[1].results.values()
    columns = ["algorithm", "seed", "round", "loss", "grad_norm_sq", "status"]
    assert shown.table.select(columns).equals(whole.table.select(columns))
    assert study.facts[""]["bias_sq"] == pytest.approx(done[1].facts[""]["bias_sq"])


def test_a_cell_that_is_damaged_or_strange_is_left_out(begun):
    first, *_ = sorted((begun / "cells").glob("*.cell"))
    first.write_bytes(first.read_bytes()[:-5])
    (begun / "cells" / "strange.cell").write_bytes(b"no cell\n{}")
    study, _ = live.Running(begun)._study(begun)
    assert len(study.result.seeds) == 1


def test_the_page_is_escaped_and_asks_only_its_own_server(served):
    _, address, _ = served
    text = asked(address)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    assert "<img src=x" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "connect-src &#x27;self&#x27;" in text
    mark = json.loads(asked(address, "state"))["mark"]
    assert f'data-live="{mark}"' in text
    for path, host, code in (("other", None, 404), ("", "evil.example", 403)):
        with pytest.raises(urllib.error.HTTPError, match=str(code)):
            asked(address, path, host)


def test_a_new_cell_changes_the_mark_and_the_end_ends_the_server(served, done):
    folder, address, told = served
    before = json.loads(asked(address, "state"))["mark"]
    cell = next((folder / "cells").glob("*.cell"))
    cell.write_bytes(cell.read_bytes())
    assert json.loads(asked(address, "state"))["mark"] != before
    shutil.copy(done[0] / "study.json", folder / "study.json")
    text = asked(address)
    assert "data-live=" not in text
    assert "connect-src" not in text
    assert told.get(timeout=30) == "the run is finished, and its page was seen"


def test_it_ends_when_nothing_comes_and_refuses_what_is_no_run(begun, tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "LEAST", 0.0)
    monkeypatch.setattr(live.Running, "newest", lambda self: 0.0)
    assert serving.serve(begun, 0, 0.1, lambda text: None) == "nothing new came for 0.1 s"
    with pytest.raises(InputError, match="holds no run"):
        live.Running(tmp_path / "nowhere")


def test_settings_are_told_apart_by_what_they_do_not_share():
    one = {"network": {"name": "ring"}, "oracle": {"batch": 4, "mean": 0.1}}
    assert names.apart({"a": one}) == {"a": ""}
    other = {"network": {"name": "path"}, "oracle": {"batch": 4, "mean": 0.1}}
    third = {"network": {"name": "path"}, "oracle": {"batch": 4, "mean": 0.2}}
    assert names.apart({"a": one, "b": other, "c": third}) == {
        "a": "ring, μ = 0.1",
        "b": "path, μ = 0.1",
        "c": "path, μ = 0.2",
    }
