"""Any loss over any pytree of parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from jax.flatten_util import ravel_pytree

import gossamer as gs
from gossamer.data import from_arrays
from gossamer.problems import empirical, logistic, neural
from gossamer.problems.problem import cast
from tests.table import table

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(23, 3))
TARGETS = RNG.normal(size=23)
PARAMS = {"w": RNG.normal(size=(3, 2)), "heads": [RNG.normal(size=2), 0.5]}


def loss(params, inputs, targets):
    heads, offset = params["heads"]
    return (jnp.tanh(inputs @ params["w"]) @ heads + offset - targets) ** 2


def penalty(params):
    return jnp.sum(params["w"] ** 2)


def parts(problem):
    return [(problem.own_inputs(agent), problem.own_targets(agent)) for agent in range(problem.agents)]


def unequal(**options):
    return empirical(loss, PARAMS, (FEATURES, TARGETS), 2, split="iid", sizes="as-they-fall", seed=1, **options)


def test_gradients_are_those_of_the_mean_loss_of_each_agent():
    problem, alpha = unequal(penalty=penalty, alpha=0.7), 0.7
    assert len(set(problem.sizes.tolist())) == problem.agents
    with jax.enable_x64(True):
        tree = jax.tree.map(jnp.asarray, PARAMS)

        def mean(params, inputs, targets):
            return loss(params, inputs, targets).mean() + alpha * penalty(params)

        both = jax.jit(jax.value_and_grad(mean))
        values, each = zip(*(both(tree, jnp.asarray(a), jnp.asarray(y)) for a, y in parts(problem)), strict=True)
        rows = np.array([ravel_pytree(gradient)[0] for gradient in each])
    np.testing.assert_allclose(problem.gradients(problem.start), rows, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(problem.gradient(problem.start), rows.mean(0), rtol=1e-12, atol=1e-14)
    assert problem.loss(problem.start) == pytest.approx(np.mean(values), rel=1e-13)
    assert problem.heterogeneity(problem.start) == pytest.approx(((rows - rows.mean(0)) ** 2).sum(1).mean())


def test_the_flat_vector_holds_every_parameter_exactly_and_comes_back():
    problem = unequal()
    assert problem.dim == 9
    flat = np.concatenate([PARAMS["heads"][0], [0.5], PARAMS["w"].ravel()])  # a dict's keys are sorted
    np.testing.assert_array_equal(problem.start, flat)
    with jax.enable_x64(True):
        tree = problem.model.unravel(jnp.asarray(problem.start))
    assert jax.tree.structure(tree) == jax.tree.structure(PARAMS)
    np.testing.assert_array_equal(tree["w"], PARAMS["w"])
    assert tree["heads"][1].shape == ()


@pytest.mark.parametrize("given", ["float16", "float64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loss_and_gradient_have_the_dtype_of_the_run_whatever_was_given(given, dtype):
    seen = set()

    def noting(params, inputs, targets):
        seen.add((params["w"].dtype.name, inputs.dtype.name))
        return inputs @ params["w"] - targets

    problem = empirical(noting, {"w": np.ones(3, given)}, (np.eye(3), [1, 2, 3]), 3)
    seen.clear()
    with jax.enable_x64(dtype == "float64"):
        ready = cast(problem, dtype)
        made = jax.eval_shape(jax.value_and_grad(ready.local_loss, 1), jnp.int32(0), ready.start)
    assert {leaf.dtype.name for leaf in made} == {dtype}
    assert seen == {(dtype, dtype)}


def test_labels_that_are_integers_go_to_the_device_without_a_warning():
    """They are int64 here, which is not there unless x64 is on."""
    problem = empirical(lambda w, a, y: a @ w - y, np.ones(3), (np.eye(3), [1, 2, 3]), 3)
    assert problem.targets.dtype == np.int64
    assert cast(problem, np.float32).targets.dtype == np.int32


def test_float32_and_float64_agree():
    double, single = unequal().gradients(unequal().start), cast(unequal(), np.float32)
    rows = jax.jit(jax.vmap(single.local_gradient, (0, None)))(jnp.arange(2), single.start)
    assert rows.dtype == jnp.float32
    np.testing.assert_allclose(rows, double, rtol=1e-4, atol=1e-5)


def test_small_integers_reach_the_loss_as_real_numbers():
    """Data that fit int8 are kept so, but 100² does not."""
    problem = empirical(lambda w, a, y: w[0] * (a**2).sum(1), [np.ones(())], (np.full((4, 2), 100), [0, 0, 1, 1]), 2)
    assert problem.inputs.dtype == np.int8
    assert problem.loss([1.0]) == 20_000


def test_predictions_are_compared_with_the_test_set():
    data = from_arrays(
        FEATURES, TARGETS > 0, test=(np.array([[1, 0, 0], [-1, 0, 0], [2, 0, 0], [-2, 0, 0]]), [1, 0, 0, 0])
    )

    def predict(params, inputs):
        return (inputs @ params["w"])[:, 0] > 0

    problem = empirical(loss, PARAMS | {"w": np.ones((3, 2))}, data, 2, predict=predict)
    assert problem.accuracy(problem.start) == 0.75
    assert empirical(loss, PARAMS, data, 2).accuracy(problem.start) is None


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_label_and_test_reach_every_problem_that_reads_tables(tmp_path, ending):
    """Logistic regression, a network without hidden layers, and a loss of one's own are the same model here."""
    answers = (FEATURES[:, 0] + TARGETS > 0).astype(int)
    frame = pl.DataFrame(FEATURES, schema=["a", "b", "c"]).with_columns(answer=answers, site=np.arange(23) % 3)
    train, test = tmp_path / f"train.{ending}", tmp_path / f"test.{ending}"
    for part, path in ((frame[:15], train), (frame[15:].select("answer", "c", "b", "a"), test)):
        part.write_csv(path) if ending == "csv" else part.write_parquet(path)
    options = {"split": "column:site", "label": "answer", "test": test}
    w = np.array([1.0, -0.5, 0.25])
    expected = (((FEATURES @ w) > 0) == answers)[15:].mean()
    assert 0 < expected < 1
    made = [
        (logistic(train, **options), w),
        (neural(train, hidden=(), **options), np.concatenate([np.stack([-w, w], 1).ravel(), [0, 0]])),
        (empirical(squared, w, train, predict=lambda w, a: a @ w > 0, **options), w),
    ]
    for problem, x in made:
        assert (problem.agents, problem.sizes.tolist()) == (3, [5, 5, 5])
        assert problem.accuracy(x) == expected
        np.testing.assert_array_equal(np.unique(problem.own_inputs(1)), np.unique(FEATURES[1:15:3]))


def squared(w, inputs, targets):
    return (inputs @ w - targets) ** 2


def test_a_loss_takes_a_test_set_of_arrays():
    problem = empirical(
        squared,
        np.ones(3),
        (FEATURES, TARGETS > 0),
        2,
        test=(np.diag([1.0, -1.0, 2.0]), [1, 1, 1]),
        predict=lambda w, a: a @ w > 0,
    )
    assert problem.accuracy(np.ones(3)) == pytest.approx(2 / 3)


def test_smoothness_is_unknown():
    assert unequal().smoothness is None


def test_a_batch_is_the_mean_over_its_rows():
    problem, rows = unequal(), np.array([0, 2, 2])
    inputs, targets = parts(problem)[1]

    @jax.jit
    def both(problem, x):
        agent, own = jnp.int32(1), jnp.asarray(rows)
        expected = loss(problem.model.unravel(x), inputs[rows], targets[rows]).mean()
        slope = jax.grad(problem.batch_loss, 2)(agent, own, x)
        return problem.batch_loss(agent, own, x), problem.batch_gradient(agent, own, x), expected, slope

    with jax.enable_x64(True):
        found, gradient, expected, slope = both(cast(problem, np.float64), jnp.asarray(problem.start))
    assert float(found) == pytest.approx(float(expected), rel=1e-13)
    np.testing.assert_allclose(gradient, slope, rtol=1e-13)


@table(
    ("given", "message"),
    [
        ({"loss": lambda *all: loss(*all).mean()}, r"loss must return one value .* shape \(\)\. Leave out the mean"),
        ({"loss": lambda *all: loss(*all)[:, None]}, r"one value for each sample, .* it returned shape \(2, 1\)"),
        ({"loss": 3}, r"empirical\(loss=…\) must be a function of \(params, inputs, targets\), but is 3"),
        (
            {"loss": lambda params, inputs: 0},
            r"loss=…\) must be a function of \(params, inputs, targets\), but .*too many",
        ),
        ({"loss": lambda *all: 10**400}, r"^loss, a function of .* failed.*: (Overflow|Type)Error"),
        (
            {"loss": lambda p, a, y: p["v"] @ a},
            r"^loss, a function of .* failed at .*empirical\.py, line \d+: KeyError: 'v'",
        ),
        ({"loss": lambda p, a, y: float(a.sum())}, r"^loss, a function of .* failed at .*: Concretization"),
        ({"predict": lambda params: 0}, r"empirical\(predict=…\) must be a function of \(params, inputs\)"),
        ({"predict": lambda p, a: a}, r"predict must return one value for each sample, .* shape \(2, 3\)"),
        ({"penalty": lambda p, q: 0}, r"empirical\(penalty=…\) must be a function of \(params\)"),
        ({"penalty": lambda p: p["w"]}, r"penalty must return one number, but returned shape \(3, 2\)"),
        ({"penalty": lambda p: 1 / 0}, r"^penalty, a function of .* failed at .*: ZeroDivisionError"),
    ],
)
def test_refuses_functions_that_fail_or_return_something_else(given, message):
    with pytest.raises(gs.InputError, match=message):
        empirical(**{"loss": loss, "params": PARAMS, "data": (FEATURES, TARGETS), "agents": 4} | given)


def test_refuses_labels_that_are_text():
    with pytest.raises(gs.InputError, match=r"must be numbers, but the labels of arrays are text, such as 'no'\."):
        empirical(loss, PARAMS, (FEATURES[:2], ["no", "yes"]), 2)
