"""Specs that cannot run: each ends with exit code 2 and one line that says why, and leaves no file behind."""

import copy
import datetime
import math
import os
from pathlib import Path

import pytest

import gossamer as gs
from gossamer import cli
from gossamer.core import InputError
from gossamer.experiments.running import build_setup
from gossamer.specs.spec import Spec
from tests.table import table

GOOD = """
[problem]
name = "quadratic"
A = [[1.0, 0.0], [0.0, 2.0]]
b = [[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 3.0]]

[network]
name = "ring"

[oracle]
stages = [{ kind = "clip", threshold = 1.0 }]

[run]
steps = 30

[tuning]
eta = [0.01, 0.1]

[[algorithm]]
name = "biased-dmt"
eta = 0.1
lam = 0.5

[[algorithm]]
name = "d-psgd"
eta = 0.1
"""

QUADRATIC = GOOD[GOOD.index('"quadratic"') : GOOD.index("\n\n[network]")]
CHOCO = '"choco-sgd"\ngamma = 0.5\ncompressor = { kind = "top-k", k = 2 }'

B = '"biased-dmt"\neta = 0.1\nlam = 0.5'

SITES = Path(__file__).parents[2] / "examples" / "sites.csv"

BAD = {
    # who chooses the numbers makes no difference to what suits what
    "tuned on a changing network": ('"ring"', '"random-matching"', '"biased-dmt"\neta = 0.1\nlam = 0.5', '"d2"', "d2"),
    "tuned with sums": ('"ring"', '"ring"\nlinks_down = 0.1', '"biased-dmt"\neta = 0.1\nlam = 0.5', CHOCO, "choco-sgd"),
    "tuned k above d": ('"biased-dmt"\neta = 0.1\nlam = 0.5', CHOCO.replace("k = 2", "k = 3"), "more coordinates than"),
    "tuned twice": ('"biased-dmt"\neta = 0.1\nlam = 0.5', '"d-psgd"', 'd-psgd"\neta = 0.1', 'd-psgd"', "given 2 times"),
    "tuned twice from one start": (B, '"d-psgd"', 'd-psgd"\neta = 0.1', 'd-psgd"', "or a warm of their own"),
    "tuned start": ("0.01, 0.1]", "0.01, 0.1]\nwarm = [0, 20]", "warm is not tuned, since it costs messages"),
    "start below 0": ("lam = 0.5", "lam = 0.5\nwarm = -1", r"warm=…\) must be a whole number of at least 0"),
    "half a gossip": ("lam = 0.5", "lam = 0.5\nwarm = 2.5", r"warm=…\) must be a whole number .* but is 2.5"),
    "start by a word": ("lam = 0.5", 'lam = 0.5\nwarm = "avg"', "but is 'avg'. Give how often .* or \"mean\" for an"),
    "start by a flag": ("lam = 0.5", "lam = 0.5\nwarm = true", "must be a whole number .* but is True"),
    "start of what does not track": ('d-psgd"\neta = 0.1', 'd-psgd"\neta = 0.1\nwarm = 3', "key 'warm' is not known"),
    "no compressor": ('"biased-dmt"\neta = 0.1\nlam = 0.5', '"beer"\ngamma = 0.5', "key 'compressor' is missing"),
    "several values": ("lam = 0.5", "lam = [0.1, 0.5]", r"lam must be one value, but is \[0.1, 0.5\]. To try several"),
    # the grid is refused before anything is written
    "eta fixed": (
        "lam = 0.5",
        "",
        "0.01, 0.1]",
        '0.01, 0.1]\nsampler = "grid"',
        "leaves no step size open, and sampler",
    ),
    "three open": (
        '"biased-dmt"\neta = 0.1\nlam = 0.5',
        '"motef"\ncompressor = { kind = "bf16" }',
        "0.01, 0.1]",
        "0.01, 0.1]\nbudget = 4",
        "budget = 4 is too small for the 3 numbers that motef leaves open .*: give at least 6",
    ),
    "grid of lam": (
        "eta = 0.1\nlam = 0.5",
        "",
        "0.01, 0.1]",
        "0.01, 0.1]\nlam = [0.5, 1.5]",
        r"must be a number in \(0, 1\]",
    ),
    "same lam": ("0.01, 0.1]", "0.01, 0.1]\nlam = [0.5, 0.5]", "the values of lam must be at least one, all different"),
    "one eta each": (B, '"biased-dmt"', "0.01, 0.1]", '0.01, 0.1]\nsampler = "grid"\nbudget = 4', "at least twice it"),
    "infinite eta": ("[0.01, 0.1]", "[0.01, inf]", "eta must be"),
    "step sizes that overflow": ("[0.01, 0.1]", "[1e300, 1e308]", r"eta must lie between 1e-30 and 1e\+30, but is"),
    "wide grid": ("0.01, 0.1]", "0.01, 0.1]\nbudget = 1000000000", "must be at most 100,000"),
    "target": ("0.01, 0.1]", '0.01, 0.1]\ncriterion = "rounds"\ntarget = nan', "finite number"),
    "criterion of another problem": (
        *(B, '"d-psgd"', "0.01, 0.1]", '0.01, 0.1]\ncriterion = "accuracy"'),
        "the criterion accuracy is not measured in these runs .* take one of .*grad_norm_sq",
    ),
    "criterion without a constant bias": (
        *(B, '"d-psgd"', "0.01, 0.1]", '0.01, 0.1]\ncriterion = "stationarity"'),
        "the criterion stationarity is not measured",
    ),
    "unknown key of tuning": ("0.01, 0.1]", "0.01, 0.1]\nbugdet = 8", "did you mean 'budget'"),
    "tuning's seeds": ("steps = 30", "steps = 30\nseeds = [1000000]", "are for tuning"),
    # sizes
    "seeds": ("steps = 30", "steps = 30\nseeds = 2147483648000", "of at most 1,000,000"),
    "seeds in one block": ("steps = 30", "steps = 30\nseeds = 999999", "999,999 seeds in one block .* give seeds_toge"),
    "a seed": ("steps = 30", "steps = 30\nseeds = [2147483648]", "a seed must be"),
    "steps": ("steps = 30", "steps = 2147483648", "steps must be a whole number of at most"),
    "tuning's size": (
        *(B, '"d-psgd"', "0.01, 0.1]", "0.01, 0.1]\nbudget = 100000\nseeds = 100000"),
        r"\[tuning\] the table .* of 10,000,000,000 runs needs about 160 TB",
    ),
    "together": ("steps = 30", "steps = 30\ntogether = 1000000000", "must be at most 100,000"),
    "hexadecimal": ("steps = 30", f"steps = 0x{'f' * 5000}", "a whole number of about 6,021 digits"),
    "digits": ("steps = 30", f"steps = {'9' * 5000}", "is not TOML"),
    "levels": ('"clip", threshold = 1.0', '"qsgd", levels = 9000000000000000000', "levels.* of at most 2,147,483,647"),
    "nesting": ("[[1.0, 0.0], [0.0, 2.0]]", "[" * 400 + "]" * 400, "nest at most 20 deep"),
    "nesting of tables": (
        "threshold = 1.0",
        "threshold = " + "{ a = " * 100 + "1" + " }" * 100,
        "nest at most 20 deep",
    ),
    "huge entry": ("[[1.0, 0.0]", "[[1e300, 0.0]", r"A must be of size 1e\+100 at most"),
    "overflow": ("eta = 0.1", "eta = 1e400", "must be a number in"),
    # types
    "name as a list": ('name = "quadratic"', 'name = ["quadratic"]', r"name = \['quadratic'\] is not known"),
    "network as a list": ('name = "ring"', 'name = ["ring"]', "is not a network"),
    "agents": ('name = "ring"', 'name = "ring"\nagents = 4', "leave out the key 'agents'"),
    "agents of a sequence": (
        '"ring"',
        '"sequence"\nof = [{ name = "ring", agents = 4 }]',
        "leave out the key 'agents'",
    ),
    "kind as a table": ('kind = "clip"', "kind = {}", "kind = {} is not known"),
    "algorithm as a list": ('"d-psgd"', '["d-psgd"]', "is not known"),
    "schedule as a list": ("eta = 0.1\nlam", "eta = { schedule = [1] }\nlam", r"schedule = \[1\] is not known"),
    "compressor as text": ('"d-psgd"', '"choco-sgd"\ngamma = 0.5\ncompressor = "top-k"', "must be a table"),
    "date": ("threshold = 1.0", "threshold = 2020-01-01", "of the type date"),
    "time": ("steps = 30", "steps = 12:30:00", "of the type time"),
    "number for a file": (
        "[run]",
        '[clock]\ncompute = { kind = "trace", file = 3 }\n[run]',
        r"\[clock\] compute: trace: it cannot be made of",
    ),
    "verdict by an unknown metric": (
        "[run]",
        '[verdict]\nmetric = "speed"\n[run]',
        "no metric 'speed' is measured along a run",
    ),
    "verdict by a metric of the end": (
        "[run]",
        '[verdict]\nmetric = "worst_loss"\n[run]',
        "no metric 'worst_loss' is measured along a run",
    ),
    "verdict with an unknown key": ("[run]", "[verdict]\nmargin = 0.1\n[run]", "'verdict.margin' is not known"),
    "nothing matters": ("[run]", "[verdict]\nmatters = 0.0\n[run]", "must be above 0, but is 0.0"),
    "true for a number": ("eta = 0.1", "eta = true", "must be a number"),
    "true in a list": ("[[1.0, 0.0]", "[[true, 0.0]", "A must be numbers"),
    "ragged": ("[0.0, 1.0]", "[0.0]", "b must be numbers"),
    "text in a list": ("[0.0, 1.0]", '["x", "y"]', "b must be numbers"),
    "not finite": ("[0.0, 1.0]", "[0.0, nan]", r"b must be finite, but is nan at index \(1, 1\)"),
    "zero byte": ("threshold = 1.0", 'threshold = 1.0, x = "a\\u0000"', "without zero bytes"),
    "no algorithms": ("[[algorithm]]", "[[algoritm]]", "did you mean 'algorithm'"),
    "empty algorithm": ('name = "d-psgd"\neta = 0.1', "", "name is missing"),
    "twice": ('name = "biased-dmt"\neta = 0.1\nlam = 0.5', 'name = "d-psgd"\neta = 0.1', "given 2 times"),
    # schedules
    "a schedule that leaves its range": (
        *("lam = 0.5", 'lam = { schedule = "cosine", start = 0.5, end = 2.0 }'),
        r"lam=…\), a schedule, at round 12 must be a number in \(0, 1\]",
    ),
    # paths
    "long path": (QUADRATIC, f'"logistic"\ndata = "{"x" * 5000}.csv"', "there is no file '.*xxx"),
    "long test path": (
        QUADRATIC,
        f'"logistic"\ndata = "{SITES}"\nlabel = "outcome"\nsplit = "column:site"\ntest = "{"y" * 300}.csv"',
        "no file",
    ),
    "no home": (QUADRATIC, '"logistic"\ndata = "~nobody-at-all/x.csv"', "there is no file"),
    "a directory": (QUADRATIC, '"logistic"\ndata = "/"', "is a directory"),
    # variants
    "variant's key": ("[run]", '[[variant]]\nname = "a"\nfoo = 1\n[run]', "key 'variant.0.foo' is not known"),
    "variant's oracle": ("[run]", '[[variant]]\nname = "a"\noracle = { batsh = 1 }\n[run]', "did you mean 'batch'"),
    "variant's run": (
        "[run]",
        '[[variant]]\nname = "a"\nrun = { stpes = 1 }\n[run]',
        "'a': run key 'stpes' .* 'steps'",
    ),
    "variant's algorithm": ("[run]", '[[variant]]\nname = "a"\nalgorithm = { x = 1 }\n[run]', "key 'x' is not known"),
    "variant's network": ("[run]", '[[variant]]\nname = "a"\nnetwork = {}\n[run]', "'' is not a network"),
    "variant's problem": (
        "[run]",
        '[[variant]]\nname = "a"\nproblem = { A = "x" }\n[run]',
        r"variant\]\] 'a': \[problem\] A must",
    ),
    "a network that is none": (
        "[run]",
        '[[variant]]\nname = "a"\nnetwork = { name = "rong" }\n[run]',
        "'a': .*mean 'ring'",
    ),
    "unnamed variant": ("[run]", '[[variant]]\nname = ""\n[run]', "must be text of at least one letter"),
    "variants of one name": ("[run]", '[[variant]]\nname = "a"\n[[variant]]\nname = "a"\n[run]', "names must differ"),
}
"""What is replaced by what, in pairs, and what the message says."""


def gossamer(*arguments, monkeypatch, capsys):
    """The exit code of a command and what it wrote to stderr."""
    monkeypatch.setattr("sys.argv", ["gossamer", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, capsys.readouterr().err


@table("case", BAD)
def test_a_bad_spec_ends_with_2_and_writes_nothing(case, tmp_path, monkeypatch, capsys):
    *pairs, message = BAD[case]
    text = GOOD
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert old in text
        text = text.replace(old, new, 1)
    (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        Spec.read("spec.toml").each(build_setup)
    code, said = gossamer("run", "spec.toml", monkeypatch=monkeypatch, capsys=capsys)
    assert code == 2
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    assert os.listdir(tmp_path) == ["spec.toml"]


def test_what_only_a_trace_can_refuse_leaves_nothing_either(tmp_path, monkeypatch, capsys):
    """Whether a metric is measured on a problem is known when the program is traced: a quadratic has no accuracy."""
    monkeypatch.chdir(tmp_path)
    text = GOOD.replace("steps = 30", "steps = 30\nuntil = { accuracy = 0.9 }")
    (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
    code, said = gossamer("run", "spec.toml", "--out", "new/run", monkeypatch=monkeypatch, capsys=capsys)
    assert code == 2
    assert "until names accuracy, which is not measured in this run" in said
    assert os.listdir(tmp_path) == ["spec.toml"]


def test_a_variant_s_wrong_key_is_refused_when_the_spec_is_read():
    with pytest.raises(InputError, match="'one': oracle key 'batsh' is not known; did you mean 'batch'"):
        Spec.of(copy.deepcopy(BASE) | {"variant": [{"name": "one", "oracle": {"batsh": 1}}]})


def test_the_spec_that_the_bad_ones_are_made_of_is_good(tmp_path):
    (tmp_path / "spec.toml").write_text(GOOD)
    assert len(Spec.read(tmp_path / "spec.toml").parts().candidates) == 2


BASE = {
    "problem": {"name": "quadratic", "A": [[1.0]], "b": [[1.0], [2.0], [3.0]]},
    "network": {"name": "ring", "links_down": 0.1, "every": 2},
    "oracle": {"stages": [{"kind": "additive-bias", "mean": 0.1, "std": 0.2, "redraw": True}]},
    "run": {"steps": 10, "every": 5, "seeds": [0, 1], "dtype": "float64"},
    "tuning": {"eta": [0.1, 1.0], "lam": [0.5, 1.0], "budget": 8, "beta": [0.5], "a": [0.5], "gamma": [0.5]},
    "algorithm": [{"name": "biased-dmt"}, {"name": "d-psgd", "eta": {"schedule": "inverse-sqrt", "start": 0.1}}],
    "variant": [{"name": "one", "problem": {"start": [1.0]}, "network": {"name": "complete"}}],
}

NEVER = [object(), 10**400, datetime.date(2026, 1, 1), "a\0b", "\ud800", [[1], [1, 2]], {"x": {}}, math.nan, {1: 2}]


def made(given):
    """The parts of a spec and of all its variants."""
    spec = Spec.of(given)
    return [one.parts() for one in (spec, *spec.variants().values())]


def places(tree, at=()):
    """The way to every value of a spec, tables and lists among them."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


@table("place", list(places(BASE)))
def test_no_value_anywhere_ends_in_a_traceback(place):
    made(BASE)
    for value in NEVER:
        spec = copy.deepcopy(BASE)
        node = spec
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = value
        with pytest.raises(InputError):
            made(spec)


@table("given", [None, [], "spec", 3, {1: 2}, {"problem": None}])
def test_what_is_no_spec_is_refused(given):
    with pytest.raises(InputError):
        Spec.of(given)


def test_a_key_without_a_value_is_left_out():
    assert Spec.of({**copy.deepcopy(BASE), "tuning": None, "algorithm": [{"name": "d-psgd", "eta": 1}]}).tuning is None


@table(
    ("algorithm", "network", "message"),
    [
        ("d2", gs.networks.random_matching(4), "needs the same mixing matrix"),
        ("d-psgd", gs.networks.directed_ring(4), "needs doubly stochastic weights"),
        ("choco-sgd", gs.networks.ring(4), "needs a compressor, which tuning does not choose"),
        ("d-psgd", gs.networks.ring(5), "4 agents, but the network"),
    ],
)
def test_tune_refuses_what_simulate_would(algorithm, network, message):
    problem = gs.problems.quadratic([[1.0]], [[1.0], [2.0], [3.0], [4.0]])
    with pytest.raises(InputError, match=message):
        gs.tune([algorithm], problem, network, steps=5, eta=(0.1, 1.0), progress=False)
