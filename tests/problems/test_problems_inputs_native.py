import functools
import shutil
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossamer.basics import cache
from gossamer.data import load_a9a
from gossamer.problems import logistic, native, sparse_rows
from gossamer.problems.inputs import Bits, Rows, hold
from gossamer.results.cache_key import describe_code
from tests.seldom import seldom

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")


def forget():
    """Let this process decide anew about the kernels, and load them anew."""
    for decided in (native._ready, native.likely, native._library):
        decided.cache_clear()


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.delenv("GOSSAMER_NATIVE", raising=False)
    forget()
    yield
    forget()


def matrix(kind, dim):
    draw = np.random.default_rng(0)
    dense = np.where(draw.random((9, dim)) < 4 / dim, draw.integers(1, 9, (9, dim)), 0)
    dense[3, : min(dim, 40)] = 2  # a long row, which is cut into pieces
    dense[5] = 0
    if kind == "ones":
        return (dense != 0).astype(np.int8)
    return dense.astype(np.int8) if kind == "integers" else dense * draw.normal(size=dense.shape)


NUMBERS = [("ones", np.float32, 33), ("integers", np.float64, 5000), ("values", np.float32, 33)]


@pytest.mark.parametrize(
    ("kind", "dtype", "dim"),
    seldom(NUMBERS, always=NUMBERS[:2]),
)
def test_kernels_compute_what_xla_computes(kind, dtype, dim):
    assert native.ready()
    draw = np.random.default_rng(1)
    with jax.enable_x64(True):
        rows = jax.tree.map(
            lambda a: jnp.asarray(a, dtype if a.dtype.kind == "f" else None), Rows.of(matrix(kind, dim))
        )
        assert rows.after is not None
        arrays, table = jax.tree.flatten(rows)
        for at, h in ((np.arange(9)[None], 1), (draw.integers(0, 9, (2, 6)), 1), (draw.integers(0, 9, (2, 6)), 31)):
            chosen, (agents, batch) = jnp.asarray(at, jnp.int32), at.shape
            for ours, plain, shape in (
                (sparse_rows.dot_p, sparse_rows.plain_dot, (agents, dim, h)),
                (sparse_rows.add_p, sparse_rows.plain_add, (agents, batch, h)),
            ):
                given = jnp.asarray(draw.normal(size=shape), dtype)
                made = rows.bind(ours, given, chosen)
                expected = jax.jit(plain, static_argnames="table")(given, chosen, *arrays, table=table)
                assert made.dtype == dtype
                np.testing.assert_allclose(made, expected, rtol=0, atol=200 * np.finfo(dtype).eps)


def test_kernels_are_in_the_compiled_program():
    held = Rows.of(matrix("ones", 33))
    text = jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(held @ x)))).lower(jnp.ones(33, jnp.float32)).as_text()
    assert "gossamer_rows_dot_float32_uint8_ones" in text
    assert "gossamer_rows_add_float32_uint8_ones" in text


def test_a9a_is_held_as_rows_and_its_gradients_are_those_of_the_formula():
    problem = logistic("a9a", 20, alpha=0.01)
    assert isinstance(problem.inputs, Rows)
    assert problem.inputs.columns.dtype == np.uint8
    x = np.random.default_rng(0).normal(size=123)
    for agent, gradient in ((0, problem.gradients(x)[0]), (19, problem.gradients(x)[19])):
        A, y = problem.own_inputs(agent).astype(float), problem.own_targets(agent)
        slope = A.T @ (-y / (1 + np.exp(y * (A @ x)))) / len(A)
        np.testing.assert_allclose(gradient, slope + 0.02 * x / (1 + x**2) ** 2, rtol=1e-11, atol=1e-13)


def test_they_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("GOSSAMER_NATIVE", "0")
    assert not native.ready()
    assert native.kernels() == "xla"
    assert isinstance(hold(load_a9a().features, linear=True), Bits)


def test_kernels_that_cannot_be_compiled_are_not_used(monkeypatch, tmp_path):
    """XLA computes the same, a warning says why, and nothing is left behind."""
    broken = tmp_path / "kernels.cc"
    broken.write_text("error")
    monkeypatch.setattr(native, "SOURCE", broken)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.warns(RuntimeWarning, match=r"not used, .* failed: .*kernels.cc:1:.*GOSSAMER_NATIVE=0"):
        assert not native.ready()
    held = Rows.of(matrix("ones", 33))
    text = jax.jit(lambda x: held @ x).lower(jnp.ones(33, jnp.float32)).as_text()
    assert "gossamer_rows" not in text
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [broken]


def test_without_a_compiler_xla_computes_without_a_warning(monkeypatch):
    monkeypatch.setattr(native, "_compiler", lambda: None)
    assert not native.likely()
    assert native.kernels() == "xla"


def test_a_compiled_kernel_is_kept_and_a_damaged_one_is_made_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.is_private(cache.place())
    kept = cache.place() / f"rows-float32-uint8-ones-{native._digest()}.so"
    kept.write_bytes(b"half")
    assert native.ready()
    assert kept.stat().st_size > 1000
    assert list(kept.parent.iterdir()) == [kept]
    forget()
    monkeypatch.setattr(native.subprocess, "run", None)
    assert native.ready(), "no compiler is started for a kernel that is there"


def test_a_directory_that_others_can_write_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache.place()
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others can write into it"):
        assert not native.ready()


def test_a_stored_cell_knows_which_kernels_computed_it():
    sparse = logistic((matrix("ones", 60), np.arange(9) % 2), 3, split="iid")
    assert isinstance(sparse.inputs, Rows)
    assert describe_code((), str, sparse)["kernels"].startswith("c++ ")
    dense = logistic((3 * np.ones((4, 2)), [0, 1, 0, 1]), 2)
    assert describe_code((), str, dense)["kernels"] == "xla"


@pytest.mark.parametrize("kind", ["ones", "values"])
def test_rows_of_one_piece_and_of_several_agents_are_taken_four_at_a_time(kind):
    draw = np.random.default_rng(2)
    dense = np.zeros((9, 33))
    for row in dense:  # equally many in each, so that none is cut; agents and rows are no multiples of four
        row[draw.choice(33, 4, replace=False)] = 1 if kind == "ones" else draw.normal(size=4)
    at, x, w = draw.integers(0, 9, (5, 6)), draw.normal(size=(5, 33)), draw.normal(size=(5, 6))
    with jax.enable_x64(True):
        held = Rows.of(dense)
        assert held.after is None

        def product(at, x, w):
            made, back = jax.vjp(lambda x: held[at] @ x, x)
            return made, *back(w)

        made, back = jax.jit(jax.vmap(product))(jnp.asarray(at), x, w)
        np.testing.assert_allclose(made, (dense[at] @ x[..., None])[..., 0], atol=1e-13)
        np.testing.assert_allclose(back, np.einsum("abd,ab->ad", dense[at], w), atol=1e-13)


def test_threads_that_ask_at_once_compile_once(monkeypatch):
    compiled, answers, together = [], [], threading.Barrier(4)

    def compile_slowly(*dtypes):
        compiled.append(dtypes)
        time.sleep(0.05)  # the others come meanwhile

    def ask():
        together.wait()
        answers.append(native.ready())

    monkeypatch.setattr(native, "_library", functools.cache(compile_slowly))
    monkeypatch.setattr(native, "_compiler", lambda: "c++")
    monkeypatch.delenv("GOSSAMER_NATIVE", raising=False)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 4
    assert len(compiled) == 1
