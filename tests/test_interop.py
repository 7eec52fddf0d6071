"""Beside other libraries: schedules of optax, models of Equinox and Flax, partitions that others made."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gossamer as gs
from gossamer.basics.tabulate import TOGETHER, check_schedules, tabulate
from gossamer.core import setting
from tests import plain

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(40, 3))
LABELS = np.where(FEATURES @ RNG.normal(size=3) + RNG.normal(size=40) > 0, 1, -1)
KINDS = (LABELS > 0).astype(int)
KEY = jax.random.key(0)
CROSS_ENTROPY = optax.softmax_cross_entropy_with_integer_labels


def values(schedule, rounds):
    return np.array(list(tabulate(gs.DPSGD(eta=schedule), "eta", rounds)))


def test_a_schedule_of_optax_is_its_closed_form_in_float64():
    """Over more rounds than one call of it computes, and one by one, as PyTorch asks for them."""
    steps, low = 2 * TOGETHER, 0.05
    schedule = optax.cosine_decay_schedule(0.1, steps, alpha=low)
    t = np.minimum(np.arange(steps + 100), steps)
    exact = 0.1 * ((1 - low) * (1 + np.cos(np.pi * t / steps)) / 2 + low)
    np.testing.assert_allclose(values(schedule, range(steps + 100)), exact, rtol=1e-14)
    assert [values(schedule, [k])[0] for k in (0, 77, steps)] == pytest.approx(exact[[0, 77, steps]], rel=1e-14)
    joined = optax.warmup_cosine_decay_schedule(0.01, 0.1, 10, 60, 0.001)
    warm, cold = np.arange(10), np.arange(50)
    exact = np.r_[0.01 + 0.09 * warm / 10, 0.001 + 0.099 * (1 + np.cos(np.pi * cold / 50)) / 2]
    np.testing.assert_allclose(values(joined, range(60)), exact, rtol=1e-14)


def test_a_run_follows_a_schedule_of_optax():
    """D-PSGD on equal losses is gradient descent: (x − 3) shrinks by 1 − 2η in each round."""
    problem = gs.problems.quadratic([[2.0]], np.full((8, 1), 3.0))
    schedule = optax.exponential_decay(0.3, 10, 0.5)
    result = gs.simulate(gs.DPSGD(eta=schedule), problem, plain.irregular(), steps=30, dtype="float64")
    left = np.prod([1 - 2 * 0.3 * 0.5 ** (t / 10) for t in range(30)])
    np.testing.assert_allclose(result.iterates["d-psgd"][0], 3 - 3 * left, rtol=1e-12)


def test_both_engines_read_a_schedule_of_jax_alike():
    from gossamer.torch import Decentralized
    from tests.torch_engine.small import problem

    schedule = optax.cosine_decay_schedule(0.1, 20, alpha=0.1)
    optimizer = Decentralized(problem()[0], gs.DPSGD(eta=schedule))
    own = [optimizer.hyperparameters.eta(t) for t in range(20)]
    np.testing.assert_allclose(own, values(schedule, range(20)), rtol=1e-15)


def test_a_schedule_of_jax_may_decide_by_the_round():
    def stairs(t):
        return jnp.asarray(0.2) if t < 100 else jnp.asarray(0.1)

    assert values(stairs, range(200)).tolist() == [0.2] * 100 + [0.1] * 100


def test_schedules_that_others_make_are_told_apart():
    cosine = optax.cosine_decay_schedule(0.1, 100)
    assert (
        setting(gs.DPSGD(eta=cosine))
        == "eta=cosine_decay_schedule(alpha=0, decay_steps=100, exponent=1, init_value=0.1)"
    )
    assert setting(gs.DPSGD(eta=optax.constant_schedule(0.1))) == "eta=constant_schedule(value=0.1)"
    joined = setting(gs.DPSGD(eta=optax.join_schedules([optax.constant_schedule(0.1), cosine], [7])))
    assert joined.startswith("eta=join_schedules(boundaries=[7], schedules=[constant_schedule(value=0.1), cosine_decay")
    rules = [gs.DPSGD(eta=optax.constant_schedule(eta)) for eta in (0.1, 0.2)]
    problem = gs.problems.quadratic([[2.0]], np.full((8, 1), 3.0))
    assert len(gs.simulate(rules, problem, plain.irregular(), steps=2).labels) == 2

    def endless(t):
        return endless(t - 1)

    assert setting(gs.DPSGD(eta=endless)).startswith("eta=")  # it closes over itself


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: gs.DPSGD(eta=optax.sgd(0.1)),
            r"DPSGD\(eta=…\) must be a number in .*Or give a schedule, a function of",
        ),
        (
            lambda: gs.BiasedDMT(eta=optax.cosine_decay_schedule, lam=0.1),
            r"BiasedDMT\(eta=…\), if it is no number, must be a function of \(t\), but is <function cosine_decay_sched",
        ),
        (
            lambda: check_schedules([gs.DPSGD(eta=optax.cosine_decay_schedule(0.1, 10))], 12),
            "at round 10 must be a number",
        ),
        (
            lambda: check_schedules([gs.DPSGD(eta=lambda t: jnp.ones(3))], 30),
            r"schedule, at round 0 must be .* is \[1\.0, 1\.0",
        ),
        (
            lambda: check_schedules([gs.DPSGD(eta=lambda t: jnp.where(t < 20, 0.1, jnp.nan))], 30),
            "at round 20 must be a number in .*, but is nan",
        ),
    ],
    ids=["optimizer", "maker", "zero", "vector", "nan"],
)
def test_what_is_no_schedule_is_refused(make, message):
    with pytest.raises(gs.InputError, match=message):
        make()


def net(width=3, out=2):
    return eqx.nn.MLP(width, out, 5, 1, activation=jnp.tanh, key=KEY)


def softplus_loss(scores, targets):
    return jnp.logaddexp(0, -targets * scores)


def test_gradients_are_those_of_the_mean_loss_of_each_agent():
    """For a module of Equinox, against JAX on the module itself, with a penalty and agents of several sizes."""
    with jax.enable_x64(True):
        model = jax.tree.map(lambda a: a.astype(np.float64) if eqx.is_array(a) else a, net())

        def penalty(model):
            return jnp.sum(model.layers[0].weight ** 2)

        rows = [[0, 3, 5], [*range(6, 30)], [1, 2]]
        data = FEATURES, KINDS
        problem = gs.problems.module(model, CROSS_ENTROPY, data, split=rows, penalty=penalty, alpha=0.3)
        for agent, own in enumerate(rows):

            def mean(model, own=tuple(own)):
                at = np.array(own)
                return CROSS_ENTROPY(jax.vmap(model)(FEATURES[at]), KINDS[at]).mean() + 0.3 * penalty(model)

            flat = jax.tree.leaves(eqx.filter_grad(mean)(model))
            expected = np.concatenate([np.ravel(leaf) for leaf in flat])
            np.testing.assert_allclose(problem.gradients(problem.start)[agent], expected, rtol=1e-12, atol=1e-15)
        assert type(problem.params(problem.start)) is eqx.nn.MLP
        assert eqx.tree_equal(problem.params(problem.start), model)


@pytest.mark.parametrize("kind", ["equinox", "apply"])
def test_a_linear_module_with_the_logistic_loss_is_the_logistic_problem(kind):
    def bounded(w):
        return jnp.sum(w**2 / (1 + w**2))

    options = {"agents": 4, "split": "by-label", "alpha": 0.01}
    if kind == "equinox":
        model = eqx.nn.Linear(3, "scalar", use_bias=False, key=KEY)
        problem = gs.problems.module(
            model, softplus_loss, (FEATURES, LABELS), penalty=lambda model: bounded(model.weight), **options
        )
    else:
        problem = gs.problems.module(
            {"w": RNG.normal(size=3)},
            softplus_loss,
            (FEATURES, LABELS),
            apply=lambda model, inputs: inputs @ model["w"],
            penalty=lambda model: bounded(model["w"]),
            **options,
        )
    same = gs.problems.logistic((FEATURES, LABELS), **options)
    for x in RNG.normal(size=(3, 3)):
        assert problem.loss(x) == pytest.approx(same.loss(x), rel=1e-12)
        np.testing.assert_allclose(problem.gradients(x), same.gradients(x), rtol=1e-12, atol=1e-14)


def test_training_reduces_the_loss_of_a_module_and_predicts():
    data = gs.data.from_arrays(FEATURES, KINDS, test=(FEATURES, KINDS))
    problem = gs.problems.module(net(), CROSS_ENTROPY, data, 4, split="iid", predict=lambda scores: scores.argmax(1))
    result = gs.simulate(gs.BiasedDMT(eta=0.3, lam=0.5), problem, "ring", gs.oracles.minibatch(4), steps=200, every=50)
    losses, x = result.frame()["loss"].to_list(), result.iterates["biased-dmt"][0].mean(0)
    assert losses[-1] < 0.7 * losses[0]
    right = np.asarray(jax.vmap(problem.params(x))(FEATURES)).argmax(1) == KINDS
    assert result.final("accuracy")["biased-dmt"] == pytest.approx([right.mean()], abs=1 / 40)


class Table(eqx.Module):
    weight: jax.Array
    places: jax.Array

    def __call__(self, x):
        return self.weight @ x[self.places]


class Normed(eqx.Module):
    norm: eqx.nn.BatchNorm

    def __call__(self, x):
        return x


WIDE = net(width=5)
ONE = net(out=1)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (Table(jnp.ones((2, 3)), jnp.arange(3)), {}, r"the model has \.places of int32, which no gradient can change"),
        (
            Normed(eqx.nn.BatchNorm(3, "batch", mode="batch")),
            {},
            "state besides its parameters, a StateIndex of Equinox",
        ),
        (eqx.nn.Dropout(), {}, r"params must be a pytree of arrays with a number at least"),
        (
            WIDE,
            {},
            r"the model, on rows of 3 features as arrays has, failed .*: TypeError: dot_general .* got \(5,\) and",
        ),
        (
            net(),
            {"loss": lambda o, t: CROSS_ENTROPY(o, t).mean()},
            r"one value for each sample, .* returned shape \(\)",
        ),
        (ONE, {"loss": lambda o, t: (o - t) ** 2}, r"for two samples it returned shape \(2, 2\)"),
        (net(), {"loss": lambda o, t: o.argmax(1) != t}, "loss must return floating numbers, .* returned bool"),
        (net(), {"loss": lambda o, t: 1j * o[:, 0]}, "loss must return floating numbers, .* returned complex64"),
        (net(), {"loss": lambda o: o}, r"module\(loss=…\) must be a function of \(outputs, targets\)"),
        (
            net(),
            {"loss": lambda o, t: o @ jnp.ones(7)},
            r"loss, a function of \(outputs, targets\) in JAX, failed at .*TypeError",
        ),
        (net(), {"predict": lambda o: o}, r"predict must return one value for each sample"),
        (
            net(),
            {"penalty": lambda model: model.layers[0].weight},
            "penalty must return one number, but returned shape",
        ),
        (eqx.nn.MLP, {}, r"must be a module of Equinox or Flax, but is <class 'equinox"),
        ({"w": jnp.ones(3)}, {}, "For a pytree of parameters give apply=…"),
        ({"w": jnp.ones(3)}, {"apply": lambda m: m}, r"module\(apply=…\) must be a function of \(model, inputs\)"),
        ({"w": jnp.ones((3, 2))}, {"apply": lambda m, x: m["w"]}, r"for two rows it returned shape \(3, 2\)"),
        ({"w": 1}, {"apply": lambda m, x: x}, r"the model has \['w'\] of int64"),
        ({"w": "a"}, {"apply": lambda m, x: x}, r"the model has \['w'\] of <U1"),
    ],
)
def test_models_that_are_no_problem_are_refused(model, options, message):
    options = {"loss": CROSS_ENTROPY, "agents": 4} | options
    with pytest.raises(gs.InputError, match=message):
        gs.problems.module(model, data=(FEATURES, KINDS), **options)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["linen", "nnx"])
def test_a_perceptron_of_flax_is_ours(library):
    """Equal parameters in the order of Flax, by name: the gradients of `problems.neural` with as many hidden units."""
    from flax import linen, nnx  # pyright: ignore[reportMissingImports]

    class Linen(linen.Module):
        @linen.compact
        def __call__(self, x):
            hidden = linen.tanh(linen.Dense(5)(x))
            return linen.Dense(2)(hidden)

    class Nnx(nnx.Module):
        def __init__(self, rngs):
            self.first, self.last = nnx.Linear(3, 5, rngs=rngs), nnx.Linear(5, 2, rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.tanh(self.first(x)))

    options = {"agents": 4, "seed": 3}
    problem = gs.problems.module(
        Linen() if library == "linen" else Nnx(nnx.Rngs(0)), CROSS_ENTROPY, (FEATURES, KINDS), **options
    )
    ours = gs.problems.neural((FEATURES, KINDS), hidden=[5], **options)
    sizes = [("bias", 5), ("kernel", 15), ("bias", 2), ("kernel", 10)]  # a pytree has its names sorted
    x = RNG.normal(size=problem.dim)
    pieces = np.split(x, np.cumsum([size for _, size in sizes])[:-1])
    order = [1, 0, 3, 2]
    there = np.concatenate([pieces[k] for k in order])
    assert problem.loss(x) == pytest.approx(ours.loss(there), rel=1e-12)
    gradients = np.split(problem.gradients(x), np.cumsum([size for _, size in sizes])[:-1], axis=1)
    np.testing.assert_allclose(np.hstack([gradients[k] for k in order]), ours.gradients(there), rtol=1e-11, atol=1e-14)
    result = gs.simulate(gs.BiasedDMT(eta=0.1, lam=0.5), problem, "ring", steps=40, every=40)
    assert result.frame()["loss"][-1] < result.frame()["loss"][0]


@pytest.mark.slow
@pytest.mark.parametrize("library", ["linen", "nnx", "nnx dropout"])
def test_state_of_flax_is_refused(library):
    from flax import linen, nnx  # pyright: ignore[reportMissingImports]

    class Linen(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(2)(linen.BatchNorm(use_running_average=False)(x))

    class Nnx(nnx.Module):
        def __init__(self, layer):
            self.layer, self.last = layer, nnx.Linear(3, 2, rngs=nnx.Rngs(0))

        def __call__(self, x):
            return self.last(self.layer(x))

    rngs = nnx.Rngs(0)
    made = {"linen": Linen(), "nnx": Nnx(nnx.BatchNorm(3, rngs=rngs)), "nnx dropout": Nnx(nnx.Dropout(0.5, rngs=rngs))}
    named = {"linen": "batch_stats", "nnx": r"\['layer'\]\['mean'\]", "nnx dropout": r"\['layer'\]\['rngs'\]"}
    with pytest.raises(gs.InputError, match=f"state besides its parameters, {named[library]}"):
        gs.problems.module(made[library], CROSS_ENTROPY, (FEATURES, KINDS), 4)


def test_partitions_of_another_library_are_the_agents_rows():
    """As lists of rows and as a column of ids, which give the same problem; what no list has is used by nobody."""
    ids = RNG.integers(3, size=40)
    rows = [np.flatnonzero(ids == k).tolist() for k in range(3)]
    listed = gs.problems.logistic((FEATURES, LABELS), split=rows)
    column = gs.problems.logistic(gs.data.from_arrays(FEATURES, LABELS, holders=ids), split="column:partition")
    x = RNG.normal(size=3)
    np.testing.assert_array_equal(listed.gradients(x), column.gradients(x))
    assert listed.loss(x) == column.loss(x)
    fewer = gs.problems.logistic((FEATURES, LABELS), split=[rows[0], rows[2][::-1]])
    np.testing.assert_array_equal(fewer.gradients(x), column.gradients(x)[[0, 2]])
    assert fewer.loss(x) == pytest.approx(np.mean([own_loss(rows[k], x) for k in (0, 2)]), rel=1e-12)
    np.testing.assert_allclose(fewer.gradient(x), fewer.gradients(x).mean(0), rtol=1e-12)


def own_loss(rows, x):
    """The logistic loss of some rows, with the penalty."""
    scores = LABELS[rows] * (FEATURES[rows] @ x)
    return np.log1p(np.exp(-scores)).mean() + 0.01 * (x**2 / (1 + x**2)).sum()
