"""Progress in a notebook: a bar that moves in its place, and IPython only where a kernel has loaded it."""

import subprocess
import sys
import types

import pytest

from gossamer.basics import progress


class Handle:
    def __init__(self, shown):
        self.pictures = [shown]

    def update(self, shown, *, raw):
        assert raw
        self.pictures.append(shown)


def kernel(monkeypatch, shell_kind):
    """A false IPython whose shell is of this class; what is displayed is kept."""
    handles = []

    def display(shown, *, raw, display_id):
        assert raw
        assert display_id
        handles.append(Handle(shown))
        return handles[-1]

    package, module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    vars(package).update(get_ipython=shell_kind, display=module)
    vars(module).update(display=display)
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return handles


class ZMQInteractiveShell:
    pass


class OfAnotherHost(ZMQInteractiveShell):
    pass


class TerminalInteractiveShell:
    pass


@pytest.mark.parametrize(
    ("shell_kind", "is_one"), [(ZMQInteractiveShell, True), (OfAnotherHost, True), (TerminalInteractiveShell, False)]
)
def test_a_notebook_is_known_by_its_shell(shell_kind, is_one, monkeypatch):
    kernel(monkeypatch, shell_kind)
    assert progress.in_notebook() is is_one


def test_a_module_that_is_half_loaded_is_no_notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    assert not progress.in_notebook()


def test_ipython_is_never_imported_where_no_kernel_has_loaded_it(tmp_path):
    (tmp_path / "IPython.py").write_text("raise SystemExit('IPython was imported')")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from gossamer.basics.progress import reporting\n"
        "with reporting(True) as report: report('a', 1, 2, 3.0)\n"
        "assert 'IPython' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_a_bar_moves_in_its_place_and_is_gone_at_the_end(monkeypatch):
    handles = kernel(monkeypatch, ZMQInteractiveShell)
    monkeypatch.setattr(progress, "QUIET_FOR", 0.0)
    monkeypatch.setattr(progress, "PAUSE_IN_NOTEBOOK", 0.0)
    with progress.reporting(True) as report:
        assert isinstance(report, progress.NotebookBar)
        report("biased-dmt", 0, 1000, 0.5)
        report("biased-dmt", 250, 1000, 0.25)
        report("<script>alert(1)</script>", 0, 1000, None)
    (handle,) = handles
    first, second, hostile, last = (picture["text/html"] for picture in handle.pictures)
    assert 'value="0" max="1000"' in first
    assert 'value="250" max="1000"' in second
    assert "250/1,000 rounds" in second
    assert "F = 0.25" in second
    assert "a second" in second
    assert "&lt;script&gt;" in hostile
    assert "<script" not in hostile
    assert "F = " not in hostile
    assert last == ""
    assert handle.pictures[1]["text/plain"].startswith("biased-dmt: 250/1,000 rounds")


def test_a_short_run_shows_no_bar(monkeypatch):
    handles = kernel(monkeypatch, ZMQInteractiveShell)
    with progress.reporting(True) as report:
        report("biased-dmt", 500, 1000, 0.5)
    assert handles == []


def test_pictures_that_come_too_fast_are_left_out_but_the_last_one_of_a_run(monkeypatch):
    handles = kernel(monkeypatch, ZMQInteractiveShell)
    monkeypatch.setattr(progress, "QUIET_FOR", 0.0)
    monkeypatch.setattr(progress, "PAUSE_IN_NOTEBOOK", 1e9)
    with progress.reporting(True) as report:
        for done in (0, 10, 20, 30):
            report("gnsd", done, 30, 1.0)
    assert [picture["text/plain"].partition(" rounds")[0] for picture in handles[0].pictures] == [
        "gnsd: 0/30",
        "gnsd: 30/30",
        "",
    ]


def test_one_s_own_function_or_none_at_all_shows_no_bar(monkeypatch):
    handles = kernel(monkeypatch, ZMQInteractiveShell)
    monkeypatch.setattr(progress, "QUIET_FOR", 0.0)
    calls = []
    with progress.reporting(lambda *told: calls.append(told)) as report:
        report("gnsd", 1, 2, 1.0)
    with progress.reporting(False) as report:
        report("gnsd", 1, 2, 1.0)
    assert calls == [("gnsd", 1, 2, 1.0)]
    assert handles == []
