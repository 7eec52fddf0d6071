"""What the page of `gossamer explore` is told: the numbers of `gossamer run`, the theory's, and why not."""

import http.client
import json
import threading
import tomllib

import numpy as np
import pytest

from gossamer.core import InputError
from gossamer.experiments import running
from gossamer.explore.explorer import LIMIT, Explorer, Superseded
from gossamer.explore.server import LARGEST_QUESTION, PageServer
from gossamer.specs.spec import Spec
from tests.commands import gossamer
from tests.table import table

STAGE = {"kind": "additive-bias", "mean": 0.01, "redraw": False}
LOGISTIC = {
    "problem": {"name": "logistic", "data": "breast-cancer", "agents": 6, "split": "by-label", "alpha": 0.01},
    "network": {"name": "ring"},
    "oracle": {"batch": 8, "stages": [STAGE | {"std": 0.02}]},
    "run": {"steps": 40, "every": 10, "seeds": [3, 4]},
    "algorithm": [{"name": "biased-dmt", "eta": 0.1, "lam": 0.3}, {"name": "d-psgd", "eta": 0.1}],
}
CURVATURE = 2.0
QUADRATIC = LOGISTIC | {
    "problem": {"name": "quadratic", "A": [CURVATURE] * 4, "b": [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [0.5, -1.0]]},
    "oracle": {"stages": [STAGE]},
    "run": {"steps": 400, "every": 100, "dtype": "float64"},
}


def question(explorer, number=1, **changes):
    told = explorer.describe()
    at = {"network": told["networks"][0]} | {key: told[key] for key in ("agents", "heterogeneity", "bias")}
    return {"page": "p", "number": number, **at, "algorithm": [one["table"] for one in told["methods"]]} | changes


@pytest.fixture(scope="module")
def logistic():
    return Explorer(Spec.of(LOGISTIC))


@pytest.fixture(scope="module")
def quadratic():
    return Explorer(Spec.of(QUADRATIC))


MOVED = ({}, {"bias": 0.03}, {"heterogeneity": 0.4}, {"heterogeneity": 0.0, "agents": 8}, {"network": "complete"})


@table("changes", MOVED)
def test_an_answer_has_the_numbers_of_a_run_of_its_spec(logistic, changes):
    """To the last bit: the same program at the same width, and the same table."""
    answer = logistic.answer(question(logistic, **changes))
    spec = Spec.of(tomllib.loads(answer["spec"]))
    assert spec.run.seeds == [3]
    result = running.run(spec, progress=False).results[""]
    for one, label in zip(answer["methods"], result.labels, strict=True):
        rows = result.of(label)
        assert one["rounds"] == rows["round"].to_list()
        assert one["values"].keys() >= {"loss", "grad_norm_sq", "consensus"}
        for name, values in one["values"].items():
            assert values == rows[name].to_list(), (label, name)
        x = result.states[result.labels[label]][0]
        np.testing.assert_array_equal(one["apart"], np.linalg.norm(x - x.mean(0), axis=1).astype(float))
        assert one["floor"] == pytest.approx(float((result.mean_bias**2).sum()), rel=1e-6)


def test_other_numbers_compile_nothing(logistic):
    logistic.answer(question(logistic))
    rule = {"name": "biased-dmt", "eta": 0.07, "lam": 0.8}
    for changes in ({"bias": 0.02}, {"algorithm": [rule]}, {"heterogeneity": 0.7, "algorithm": [rule]}):
        logistic.answer(question(logistic, heterogeneity=0.3))  # the shape of other parts may be another
        assert logistic.answer(question(logistic, **changes))["compiled"] == 0, changes
    assert logistic.answer(question(logistic, agents=7))["compiled"] > 0


def test_the_floor_is_the_norm_of_the_mean_bias_and_a_tracker_ends_there(quadratic):
    for bias in (0.0, 0.01, 0.2):
        tracker, other = quadratic.answer(question(quadratic, bias=bias))["methods"]
        floor = 2 * bias**2  # two coordinates
        assert tracker["floor"] == (pytest.approx(floor) if bias else None)
        assert tracker["values"]["grad_norm_sq"][-1] == pytest.approx(floor, abs=1e-12)
        assert max(tracker["apart"]) < 1e-6 < min(other["apart"])


def test_a_run_is_stable_below_the_step_size_that_the_theory_tells_and_not_above(quadratic):
    def ask(eta):
        asked = question(quadratic, algorithm=[{"name": "biased-dmt", "eta": eta, "lam": 0.3}])
        return quadratic.answer(asked)["methods"][0], quadratic.theory(asked)[0]

    stable = ask(0.1)[1]["stable"]
    below, above = ask(0.98 * stable)[0], ask(1.2 * stable)[0]
    assert below["values"]["grad_norm_sq"][-1] < 0.01 * below["values"]["grad_norm_sq"][0]
    grown = above["values"]["grad_norm_sq"]
    assert above["diverged"] >= 0 or grown[-1] > 1e3 * grown[0]
    told = ask(1e6)[0]
    assert told["diverged"] > 0
    assert told["rounds"][-1] == told["diverged"]
    assert told["values"]["loss"][-1] is None
    assert told["apart"] is None


def test_the_theory_is_told_for_the_methods_that_it_is_about(quadratic):
    tracker, other = quadratic.theory(question(quadratic))
    assert tracker["smoothness"] == CURVATURE
    assert tracker["covered"] == 0
    assert "needs λ ≤" in tracker["proved"]
    assert other is None
    small = {"name": "biased-dmt", "eta": 0.1, "lam": 0.01}
    assert quadratic.theory(question(quadratic, algorithm=[small]))[0]["covered"] == pytest.approx(
        0.01 / 16 / CURVATURE
    )
    tiny = {"name": "biased-dmt", "eta": 0.1, "lam": 1e-320}
    assert quadratic.theory(question(quadratic, algorithm=[tiny]))[0]["stable"] >= 0
    changing = quadratic.theory(question(quadratic, network="one-peer-exponential"))[0]
    assert "changes from round to round" in changing["why"]


def test_a_slider_that_is_logarithmic_does_not_begin_at_0():
    explorer = Explorer(Spec.of(QUADRATIC | {"algorithm": [{"name": "d-adamw", "eta": 0.1, "decay": 0.0}]}))
    eta, decay = explorer.describe()["methods"][0]["sliders"]
    assert eta["low"] == decay["low"] == 1e-4
    assert (decay["value"], decay["log"]) == (0.0, True)


def test_a_method_that_is_refused_keeps_the_others_and_is_not_in_the_spec(logistic):
    rules = [{"name": "biased-dmt", "eta": -1.0, "lam": 0.3}, {"name": "push-pull", "eta": 0.1}, {"name": "nothing"}]
    refused, shown, unknown = logistic.answer(question(logistic, algorithm=rules))["methods"]
    assert "eta=…) must be a number in (0, ∞), but is -1.0" in refused["error"]
    assert "nothing" in unknown["error"]
    assert shown["values"]["loss"]
    assert "push-pull" in logistic.answer(question(logistic, algorithm=rules))["spec"]
    assert "biased-dmt" not in logistic.answer(question(logistic, algorithm=rules))["spec"]


def test_a_bias_may_come_to_a_spec_that_has_none():
    explorer = Explorer(Spec.of(QUADRATIC | {"oracle": {}}))
    assert explorer.describe()["bias"] is None
    assert "stages" not in explorer.answer(question(explorer))["spec"]
    answer = explorer.answer(question(explorer, bias=0.1))
    assert answer["methods"][0]["floor"] == pytest.approx(0.02)
    assert tomllib.loads(answer["spec"])["oracle"]["stages"] == [
        {"kind": "additive-bias", "mean": 0.1, "redraw": False}
    ]


@table(
    ("changes", "message"),
    [
        ({"eta": 1}, "key 'eta' is not known; choose from agents"),
        ({"number": -1}, "key 'number' must be at least 0, but is -1"),
        ({"agents": 1}, "key 'agents' must be at least 2, but is 1"),
        ({"agents": 10**9}, f"key 'agents' must be at most {LIMIT}, but is 1000000000"),
        ({"agents": 2.5}, "key 'agents' must be a whole number, but is 2.5"),
        ({"heterogeneity": 1.5}, "key 'heterogeneity' must be at most 1, but is 1.5"),
        ({"heterogeneity": float("nan")}, "key 'heterogeneity' must be"),
        ({"bias": float("inf")}, "key 'bias' must be a finite number"),
        ({"bias": "0"}, "key 'bias' must be a number without quotation marks"),
        ({"network": "rin"}, "'rin' is not a network; did you mean 'ring'?"),
        ({"network": "torus", "agents": 7}, "7 is prime. Use the ring"),
        ({"algorithm": []}, "0 methods cannot be shown: choose 1 to 8"),
        ({"algorithm": [{"name": "d-psgd", "eta": 0.1}] * 9}, "9 methods cannot be shown: choose 1 to 8"),
        ({"algorithm": [{"name": "d-psgd", "eta": 0.1}] * 2}, "is given 2 times; once is enough"),
        ({"algorithm": [{"name": "d-psgd", "eta": 0.0}]}, "must be a number in (0, ∞), but is 0"),
        ({"algorithm": [{"eta": 0.1}]}, "name is missing. Known:"),
        ({"algorithm": ["d-psgd"]}, "key 'algorithm.0' must be a table"),
        ({"page": "p" * 100}, "key 'page' must be"),
    ],
)
def test_a_bad_question_is_refused_with_the_way_out(logistic, changes, message):
    with pytest.raises(InputError) as refused:
        logistic.answer(question(logistic, **changes))
    assert message in str(refused.value)


def test_a_question_that_is_no_object_is_refused(logistic):
    for given in (None, [], "x", 3):
        with pytest.raises(InputError, match="a question is an object"):
            logistic.answer(given)


@table(
    ("changes", "message"),
    [
        ({"variant": [{"name": "a"}]}, "no controls for [variant]: write the values of one variant"),
        ({"tuning": {"eta": [0.1, 1.0]}}, "no controls for [tuning]: give every [[algorithm]] its numbers"),
        ({"clock": {}}, "no controls for [clock]: leave it out"),
        ({"run": {"steps": 4, "settle": 8}}, "[run] settle makes runs of different lengths: leave it out"),
        ({"run": {"steps": 4, "until": {"loss": 0.1}}}, "[run] until makes runs of different lengths: leave it out"),
        ({"run": {"steps": 4, "equal": "bytes"}}, "[run] equal makes runs of different lengths: leave it out"),
        ({"algorithm": [{"name": "d-psgd", "eta": 0.1 * k} for k in range(1, 10)]}, "keep 8 at most"),
        ({"algorithm": [{"name": "d-psgd"}]}, "key 'eta' is missing"),
        ({"problem": LOGISTIC["problem"] | {"agents": 250}}, "but the problem has 250: change the number"),
        ({"network": {"name": "rin"}}, "did you mean 'ring'"),
    ],
)
def test_a_spec_that_sliders_cannot_stand_for_is_refused(changes, message):
    with pytest.raises(InputError) as refused:
        Explorer(Spec.of(LOGISTIC | changes))
    assert message in str(refused.value)


def test_only_the_newest_question_of_a_page_is_answered(quadratic):
    quadratic.answer(question(quadratic, 7, page="q"))
    with pytest.raises(Superseded):
        quadratic.answer(question(quadratic, 6, page="q"))
    assert quadratic.answer(question(quadratic, 6, page="another"))["methods"]


def test_a_run_ends_once_its_page_asks_for_something_newer():
    long = Explorer(Spec.of(QUADRATIC | {"run": {"steps": 500_000_000, "every": 100_000_000}}))
    ended = []

    def ask():
        try:
            long.answer(question(long))
        except Superseded:
            ended.append("superseded")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    while not long.compiled.count:
        thread.join(0.05)
    with pytest.raises(InputError):
        long.answer(question(long, 2, algorithm=[{"name": "d-psgd", "eta": -1.0}]))
    thread.join(60)
    assert ended == ["superseded"]


# --- the server -------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(quadratic):
    server = PageServer(quadratic)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def send(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    reply = connection.getresponse()
    status, kept, text = reply.status, reply.headers, reply.read().decode()
    connection.close()
    return status, kept, text


def test_the_page_and_its_answers_come_from_loopback_alone(server, quadratic):
    port, asked = server.server_port, json.dumps(question(quadratic, 100))
    assert server.server_address[0] == "127.0.0.1"
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        status, headers, page = send(server, "GET", "/", Host=host)
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        assert "default-src 'none'; script-src 'sha256-" in page
        own = {"Host": host, "Content_Type": "application/json", "Origin": f"http://{host}"}
        assert send(server, "POST", "/answer", asked, **own)[0] == 200
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1:{port + 1}", "127.0.0.1", ""):
        assert send(server, "GET", "/", Host=host)[0] == 403
        assert send(server, "POST", "/answer", asked, Host=host, Content_Type="application/json")[0] == 403
    status, _, text = send(
        server, "POST", "/answer", asked, Content_Type="application/json", Origin="http://evil.example"
    )
    assert status == 403
    assert "open that address" in json.loads(text)["error"]


@table(
    ("method", "path", "body", "kind", "status", "message"),
    [
        ("GET", "/x", None, "", 404, "the page is at /"),
        ("GET", "/../etc/passwd", None, "", 404, "the page is at /"),
        ("POST", "/x", "{}", "application/json", 404, "ask at /answer or /theory"),
        ("POST", "/answer", "{}", "text/plain", 415, "application/json"),
        ("POST", "/answer", "{}", "application/x-www-form-urlencoded", 415, "application/json"),
        ("POST", "/answer", "x" * (LARGEST_QUESTION + 1), "application/json", 413, "at most 100,000 bytes"),
        ("POST", "/answer", "{", "application/json", 400, "the question is not JSON"),
        ("POST", "/answer", b"\xff\xfe\xfa", "application/json", 400, "the question is not JSON"),
        ("POST", "/answer", "[" * 50_000, "application/json", 400, "the question is not JSON"),
        ("POST", "/answer", "[]", "application/json", 400, "a question is an object"),
        ("POST", "/answer", "{}", "application/json", 400, "is missing"),
        ("POST", "/theory", "{}", "application/json", 400, "is missing"),
        ("OPTIONS", "/answer", None, "", 501, ""),
        ("PUT", "/", "{}", "application/json", 501, ""),
    ],
)
def test_a_bad_request_is_refused_with_the_way_out(server, method, path, body, kind, status, message):
    got, _, text = send(server, method, path, body, Content_Type=kind)
    assert got == status
    assert message in text


def test_a_length_of_thousands_of_digits_is_refused(server):
    long = {"Content_Type": "application/json", "Content_Length": "9" * 5000}
    status, _, text = send(server, "POST", "/answer", "{}", **long)
    assert (status, "at most 100,000 bytes" in text) == (413, True)


def test_browsers_leave_out_port_80(quadratic):
    server = PageServer(quadratic)
    server.server_close()
    assert len(server.hosts) == 2
    server.server_port = 80
    assert {"127.0.0.1", "localhost", "127.0.0.1:80", "localhost:80"} == {*server.hosts}


def test_a_port_is_not_shared_and_connections_that_come_at_once_are_kept(server, quadratic):
    assert not PageServer.allow_reuse_port  # true in the standard library of newer Pythons
    with pytest.raises(InputError, match="cannot listen at port"):
        PageServer(quadratic, server.server_port)
    assert PageServer.request_queue_size == 128


def test_an_older_question_is_answered_with_a_conflict_and_an_error_of_ours_is_named(
    server, quadratic, monkeypatch, capsys
):
    kind = {"Content_Type": "application/json"}
    assert send(server, "POST", "/answer", json.dumps(question(quadratic, 200)), **kind)[0] == 200
    assert send(server, "POST", "/answer", json.dumps(question(quadratic, 199)), **kind)[0] == 409
    monkeypatch.setattr(quadratic, "_move", lambda asked: 1 / 0)
    status, _, text = send(server, "POST", "/answer", json.dumps(question(quadratic, 201)), **kind)
    assert (status, json.loads(text)["error"]) == (
        500,
        "an error of ours, not of your input: ZeroDivisionError: division by zero",
    )
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_the_command_refuses_a_bad_spec_or_port_before_it_listens(tmp_path, server):
    (tmp_path / "bad.toml").write_text("title = 3\n", encoding="utf-8")
    for words, message in (
        (("bad.toml",), "key 'problem' is missing"),
        (("none.toml",), "does not exist"),
        (("--port", "70000"), "70000"),
        (("--port", str(server.server_port), "--no-cache"), f"cannot listen at port {server.server_port}"),
    ):
        done = gossamer("explore", "--no-browser", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stdout == ""
