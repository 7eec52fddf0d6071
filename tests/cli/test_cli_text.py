"""What users write is shown and never acted on: by terminals, by readers of JSON."""

import io
import json
import math
import re

import pytest
from rich.console import Console

from gossamer import cli
from gossamer.basics import progress
from gossamer.basics.text import visible
from gossamer.cli import reproduce, shared
from tests.commands import gossamer
from tests.table import table

NASTY = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202eback [bold]x[/] [/] \\[y] [link=z]\r\n\udcff\\"
"""Escape sequences, text from right to left, markup that opens and closes, half a character, a backslash."""

ACTS = ("\x1b", "\x9b", "\x07", "\r", "\u202e", "\udcff")

SPEC = """
problem = {{ name = "quadratic", A = [[1.0]], b = [[1.0], [2.0]] }}
network = {{ name = "complete" }}
run = {{ steps = 4 }}
algorithm = [{{ name = "d-psgd", eta = 0.1 }}]
variant = [{{ name = {name} }}, {{ name = "[/]" }}]
"""


def command(*arguments, monkeypatch):
    """The exit code of a command."""
    monkeypatch.setattr("sys.argv", ["gossamer", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_what_a_terminal_would_act_on_is_shown():
    shown = visible(NASTY)
    assert not any(letter in shown for letter in ACTS)
    assert shown.startswith("\\x1b[31mred\\x1b]0;title\\x07 \\x9b2J \\u202eback [bold]x[/] [/] \\[y]")
    assert shown.endswith("\\r\\n\\udcff\\")
    assert visible("λ = 0.05, ē, ‖∇F‖² ± 1") == "λ = 0.05, ē, ‖∇F‖² ± 1"
    assert visible("two\nlines", keep="\n") == "two\nlines"


def test_the_error_line_shows_a_name_as_it_is(tmp_path, monkeypatch, capsys):
    assert command("run", tmp_path / NASTY, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert f"{visible(NASTY)} does not exist" in said


def test_runs_of_a_variant_with_a_nasty_name_print_it_as_it_is(tmp_path, monkeypatch, capsys):
    name = NASTY.replace("\udcff", "")
    (tmp_path / "spec.toml").write_text(SPEC.format(name=json.dumps(name)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert command("run", "spec.toml", monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    assert visible(name) in out
    assert not any(letter in out for letter in ACTS)
    assert command("run", "spec.toml", "--json", monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    assert not any(letter in out for letter in ACTS)
    assert [row["variant"] for row in json.loads(out)["algorithms"]] == [name, "[/]"]


def test_tables_show_text_as_it_is(capsys):
    row = {"experiment": NASTY, "claim": "[red]claim[/red] [/]", "measured": "a\\", "verdict": "holds"}
    reproduce.print_verdicts([row])
    out = capsys.readouterr().out
    assert "[red]claim[/red] [/]" in out
    assert not any(letter in out for letter in ACTS)


def test_progress_shows_names_as_they_are(monkeypatch, capsys):
    progress.Lines()(NASTY, 5, 5, 1.0)
    assert visible(NASTY.partition(",")[0]) in capsys.readouterr().err
    monkeypatch.setattr(progress, "QUIET_FOR", 0.0)
    stream = io.StringIO()
    bar = progress.Bar(Console(file=stream, force_terminal=True, width=300, color_system=None))
    bar("[/] [red]n[/red]\x1b[2K", 1, 5, 1.0)
    bar._bar.refresh()
    bar.close()
    assert "[/] [red]n[/red]\\x1b[2K" in stream.getvalue()


def test_a_notebook_gets_lines_and_a_user_s_function_the_calls(monkeypatch, capsys):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    calls = []
    for wanted in (True, False, lambda *told: calls.append(told)):
        with progress.reporting(wanted) as report:
            report("dsgt", 3, 3, 0.5)
    assert capsys.readouterr().err == "dsgt: 3 rounds, F = 0.5\n"
    assert calls == [("dsgt", 3, 3, 0.5)]


def test_json_has_null_for_what_is_not_finite(capsys):
    shared.say_json({"a": [math.nan, (math.inf, 1.5)], "b": {"c": -math.inf}, "λ": "\x9b"})
    out = capsys.readouterr().out
    assert json.loads(out, parse_constant=pytest.fail) == {"a": [None, [None, 1.5]], "b": {"c": None}, "λ": "\x9b"}
    assert "λ" in out
    assert "\x9b" not in out


def test_a_tuning_in_which_settings_diverge_prints_json_that_any_reader_takes(tmp_path, monkeypatch, capsys):
    spec = SPEC.format(name='"a"').replace(", eta = 0.1", "").replace("steps = 4", "steps = 40")
    spec += "tuning = { eta = [0.01, 100.0], budget = 8 }\n"
    (tmp_path / "spec.toml").write_text(spec)
    monkeypatch.chdir(tmp_path)
    assert command("tune", "spec.toml", "--json", monkeypatch=monkeypatch) == 0
    rows = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert None in {row["value"] for row in rows}
    assert any(row["diverged"] for row in rows)


@table(
    ("arguments", "message"),
    [
        (("run", "good.toml", "--out", "file"), "file is a file; --out is a directory"),
        (("run", "good.toml", "--out", "file/below"), "file is a file; --out is a directory"),
        (("run", "good.toml", "--out", "new/" + "x" * 300), "too long"),
        (("run", "good.toml", "--out", "x" * 300), "too long"),
        (("run", "good.toml", "--out", "\udcff"), "not UTF-8"),
        (("run", "x" * 300), "too long"),
        (("run", "."), "directory"),
        (("tune", "good.toml"), "has no [tuning] section"),
        (("reproduce", "fig1", "--out", "file"), "file is a file"),
        (("report", "file"), "there is no directory 'file'"),
        (("plot", "x" * 300), "there is no directory"),
        (("audit", "good.toml", "--rounds", "0"), "rounds must be a whole number of at least 1"),
        (("audit", "good.toml", "--queries", "1"), "queries must be a whole number of at least 4"),
        (("plan", "good.toml", "--steps", "0"), "steps must be a number in [1, ∞)"),
        (("plan", "good.toml", "--target", "nan"), "target must be a number in (0, ∞)"),
        (("launch", "x" * 300), "there is no script"),
        (("run", "good.toml", "--across", "los"), "no metric 'los' is measured; did you mean 'loss'"),
        (("init", "x" * 300 + ".toml"), "too long"),
        (("init", "file/new.toml"), "file cannot be read or written: "),
        (("init", "new/" + "x" * 300 + ".toml"), "too long"),
        (("networks", "--agents", "2000000000"), "TB of memory"),
        (("networks", "--agents", "4", "--plot", "x" * 300 + ".png"), "too long"),
        (("run", "nothing.toml"), "nothing.toml does not exist"),
        (("run", "bad.toml"), "bad.toml key 'run' is missing"),
        (("plot", "."), "holds no finished run"),
        (("networks", "--agents", "4", "--plot", "no/such/x.png"), "there is no directory 'no/such'"),
    ],
)
def test_bad_input_ends_with_2_and_writes_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "good.toml").write_text(SPEC.format(name='"a"'))
    (tmp_path / "bad.toml").write_text("[problem]\n[network]\n[[algorithm]]\n")
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert command(*arguments, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.splitlines()[-1].startswith("error: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.toml", "file", "good.toml"]


@table(
    ("arguments", "message"),
    [
        (("recommend", "good.toml", "--seconds", "abc"), "it must be a number, not 'abc'."),
        (("audit", "good.toml", "--rounds", "1.5"), "it must be a whole number, not '1.5'."),
        (("run", "good.toml", "--processes", "0"), "it must be at least 1, not '0'."),
        (("plot", "runs/a", "--columns", "3"), "it must be at most 2, not '3'."),
        (("list", "methods"), "'methods' is not one of 'algorithms'"),
        (("launch", "--processes", "3", "good.toml", "--foo"), "No such option: --foo"),
        (("launch", "good.toml", "--processes", "0"), "it must be at least 1, not '0'."),
    ],
)
def test_a_wrong_option_is_refused_once_and_in_our_words(arguments, message, tmp_path, monkeypatch):
    """Under `launch` as well, before any process is started."""
    (tmp_path / "good.toml").write_text(SPEC.format(name='"a"'))
    monkeypatch.setattr("gossamer.engines.processes.launch", lambda *_, **__: pytest.fail("processes were started"))
    done = gossamer(*arguments, cwd=tmp_path)
    said = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 2
    assert said.count(message) == 1
    assert said.count("Usage:") == 1
    assert "Input should" not in said
    assert "Value error" not in said


@pytest.mark.parametrize(("rank", "told"), [(None, 1), ("0", 1), ("1", 0), ("7", 0)])
def test_of_the_processes_of_a_launch_the_first_alone_says_what_is_wrong(rank, told, tmp_path, monkeypatch):
    """Before they have met, all refuse alike; afterwards they can tell each other."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setenv("GOSSAMER_LAUNCHED", rank) if rank else monkeypatch.delenv("GOSSAMER_LAUNCHED", raising=False)
    done = gossamer("run", "nothing.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("nothing.toml does not exist") == told


def test_flags_are_shown_without_a_type():
    for name in set(cli.COMMANDS) - {"init", "explore", "report", "plot", "launch"}:
        shown = gossamer(name, "--help").stdout
        assert "<bool>" not in shown
        assert re.search(r"--(json|quick)\s+[A-Z]", shown)  # followed by the help alone
