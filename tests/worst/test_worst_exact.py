"""Worst cases against closed forms, against one another, and against what the simulator does."""

import math
from fractions import Fraction

import numpy as np
import pytest

import gossamer as gs
from gossamer import theory
from gossamer.core import State, StepSize, rule
from gossamer.worst import Bias, NotProven, worst_case
from gossamer.worst.case import check_bias
from gossamer.worst.spaces import Eigenvalues, Given
from tests.table import table

ALONE = gs.networks.complete(1)
TWO = gs.networks.ring(2)
DESCENT = gs.CentralizedSGD
BIASED = (0.1, 0.1)


def descend(steps, functions, metric, **bounds):
    """The worst case of gradient descent with η = 1/L."""
    return worst_case(DESCENT(eta=1 / functions.L), ALONE, steps=steps, functions=functions, metric=metric, **bounds)


@table(("L", "steps"), [(1.0, 1), (1.0, 2), (1.0, 5), (40.0, 2), (0.01, 3)])
def test_gradient_descent_on_convex_losses(L, steps):
    # Drori and Teboulle, 2014, arXiv 1206.3209, Theorem 3.1: LR²/(4N + 2)
    found = descend(steps, gs.convex(L), "gap", distance=3.0)
    assert found.upper == pytest.approx(3 * L / (4 * steps + 2), rel=1e-6)


@table(("L", "steps"), [(1.0, 1), (1.0, 2), (1.0, 5), (40.0, 2), (0.01, 3)])
def test_gradient_descent_on_losses_that_are_not_convex(L, steps):
    # Abbaszadehpeivasti, de Klerk and Zamani, 2022, arXiv 2104.00468: 4LΔ/(3N + 2), for steps of 1/L
    found = descend(steps, gs.smooth(L), "least_gradient", excess=2.0)
    assert found.upper == pytest.approx(8 * L / (3 * steps + 2), rel=1e-6)


@table("steps", [1, 2, 5])
def test_gradient_descent_on_strongly_convex_losses(steps):
    found = descend(steps, gs.convex(1.0, mu=0.1), "distance", distance=1.0)
    assert found.upper == pytest.approx(0.9 ** (2 * steps), rel=1e-6)


def test_subgradient_steps_on_losses_that_are_not_smooth():
    # the mean of N + 1 models of a subgradient method with steps R/(G√(N + 1)) is within GR/√(N + 1) of the optimum
    steps = 3
    found = worst_case(
        DESCENT(eta=1 / (2 * math.sqrt(steps + 1))),
        ALONE,
        steps=steps,
        functions=gs.lipschitz(2.0),
        metric="average_gap",
    )
    assert found.upper <= 2 / math.sqrt(steps + 1) + 1e-6
    assert found.lower > 0.9 * found.upper


def test_bounds_are_linear_in_what_is_given():
    # the factors at one set of bounds are a valid bound at any other
    given = {"excess": 1.0, "start": 1.0, "bias": BIASED}
    first = worst_case(gs.BiasedDMT(eta=0.2, lam=0.5), TWO, steps=3, **given)
    assert sum(
        first.per[name] * {"excess": 1.0, "start": 1.0, "bias": 0.1}[name] for name in first.per
    ) == pytest.approx(first.upper, rel=1e-12)
    other = worst_case(gs.BiasedDMT(eta=0.2, lam=0.5), TWO, steps=3, excess=0.0, start=4.0, bias=(0.1, 0.3))
    assert other.solved <= 4 * first.per["start"] + 0.3 * first.per["bias"] + 1e-7


def test_units_of_losses_change_nothing():
    # x, η and L in other units: η ↦ η/c, L ↦ cL, Δ stays, ζ² and ‖∇F‖² grow by c
    plain = worst_case(gs.GNSD(eta=0.2), TWO, steps=3, bias=BIASED)
    c = 37.0
    other = worst_case(gs.GNSD(eta=0.2 / c), TWO, steps=3, functions=gs.smooth(c), bias=(0.1, 0.1 * c), start=c)
    assert other.upper == pytest.approx(c * plain.upper, rel=1e-6)


@table("bias", [None, BIASED])
def test_lambda_one_is_gnsd(bias):
    momentum = worst_case(gs.BiasedDMT(eta=0.2, lam=1.0), TWO, steps=4, bias=bias)
    assert momentum.upper == pytest.approx(worst_case(gs.GNSD(eta=0.2), TWO, steps=4, bias=bias).upper, abs=1e-6)


@table("name", ["DPSGD", "GNSD", "GTDSGD", "ExactDiffusion"])
def test_one_agent_runs_the_centralised_rule(name):
    alone = worst_case(getattr(gs, name)(eta=0.3), ALONE, steps=4, bias=BIASED)
    assert alone.upper == pytest.approx(worst_case(DESCENT(eta=0.3), ALONE, steps=4, bias=BIASED).upper, abs=1e-6)


def test_worst_cases_grow_with_their_class():
    def value(**changed):
        given = {"functions": gs.smooth(1.0), "bias": (0.1, 0.1), "spectrum": (-0.5, 0.5), **changed}
        return worst_case(gs.BiasedDMT(eta=0.3, lam=0.5), steps=4, **given).upper

    middle = value()
    larger = [{"functions": gs.smooth(1.1)}, {"bias": (0.2, 0.1)}, {"bias": (0.1, 0.2)}, {"spectrum": (-0.5, 0.8)}]
    assert all(value(**changed) > middle + 1e-4 for changed in larger)
    assert value(functions=gs.convex(1.0), excess=1.0, start=1.0, distance=4.0) < middle


@table(
    ("network", "bias"), [(gs.networks.ring(4), BIASED), (gs.networks.complete(3), None), (gs.networks.ring(5), None)]
)
def test_eigenvalues_lose_nothing_where_agents_are_alike(network, bias):
    from gossamer.worst import exact

    rule, given = gs.GNSD(eta=0.3), (gs.smooth(), check_bias(bias), 3, "mean_gradient")
    bounds = {"excess": 1.0, "start": 1.0}
    whole = exact._solve(rule, Given(network), *given, bounds, network, 60)
    blocks = worst_case(rule, network, steps=3, bias=bias)
    assert isinstance(blocks.case.space, Eigenvalues)
    assert blocks.upper == pytest.approx(whole.upper, abs=1e-6)


def test_directed_networks_of_equal_agents_have_hermitian_blocks():
    from gossamer.worst import exact

    network, rule = gs.networks.exponential(5), gs.DPSGD(eta=0.3)
    blocks = worst_case(rule, network, steps=3)
    assert blocks.case.space.dtype is complex
    bounds = {"excess": 1.0, "start": 1.0}
    whole = exact._solve(rule, Given(network), gs.smooth(), Bias(), 3, "mean_gradient", bounds, network, 60)
    assert blocks.upper == pytest.approx(whole.upper, abs=1e-6)
    assert blocks.upper - 1e-6 < blocks.lower <= blocks.upper


@table("steps", [2, 4])
def test_an_interval_is_as_bad_as_its_ends(steps):
    rule = gs.GNSD(eta=0.2)
    interval = worst_case(rule, steps=steps, spectrum=(-0.5, 0.5))
    ends = gs.networks.from_matrix(matrix_with(-0.5, 0.5))
    assert interval.upper == pytest.approx(worst_case(rule, ends, steps=steps).upper, abs=1e-6)
    assert interval.upper - 1e-6 < interval.lower <= interval.upper


def matrix_with(low, high):
    """A circulant W of four agents with the eigenvalues 1, low, low, high."""
    row = np.array([(1 + high) / 2 + low, (1 - high) / 2, (1 + high) / 2 - low, (1 - high) / 2]) / 2
    return np.array([np.roll(row, k) for k in range(4)])


REPLAYED = [
    gs.BiasedDMT(eta=0.2, lam=0.5),
    gs.DPSGD(eta=0.2),
    gs.GNSD(eta=0.2),
    gs.GTDSGD(eta=0.2),
    gs.DSGDm(eta=0.04, beta=0.8),
]


@pytest.mark.parametrize("rule", REPLAYED, ids=lambda rule: rule.name)
@pytest.mark.parametrize(
    ("network", "steps", "bias"),
    [
        (TWO, 3, BIASED),
        pytest.param(TWO, 4, None, marks=pytest.mark.slow),
        pytest.param(gs.networks.path(3), 3, BIASED, marks=pytest.mark.slow),
        pytest.param(gs.networks.path(3), 3, None, marks=pytest.mark.slow),
        pytest.param(gs.networks.ring(5), 4, BIASED, marks=pytest.mark.slow),
        pytest.param(gs.networks.ring(5), 4, None, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_simulator_attains_the_bound(rule, network, steps, bias):
    found = worst_case(rule, network, steps=steps, bias=bias)
    replayed = found.replayed
    assert replayed.violation < 1e-12
    assert found.upper - 1e-6 * max(1, found.upper) < replayed.value <= found.upper


@pytest.mark.slow
def test_where_agents_differ_the_condition_on_the_infimum_need_not_be_attained():
    found = worst_case(gs.GTDSGD(eta=0.2), gs.networks.path(3), steps=4)
    assert 1e-5 < found.upper - found.lower < 1e-4
    assert found.replayed.violation < 1e-9


@table(
    ("metric", "functions"),
    [
        ("last_gradient", gs.smooth()),
        ("least_gradient", gs.smooth()),
        ("gap", gs.convex()),
        ("average_gap", gs.convex()),
        ("distance", gs.convex(1.0, mu=0.1)),
        ("gap", gs.lipschitz(1.0)),
    ],
)
def test_every_metric_is_attained(metric, functions):
    found = worst_case(gs.DPSGD(eta=0.3), gs.networks.ring(3), steps=2, functions=functions, metric=metric)
    assert found.upper - 2e-6 < found.lower <= found.upper


def test_compressed_rules_meet_the_worst_contraction():
    network = gs.networks.ring(2, weights="lazy")

    def case_of(compressor):
        return worst_case(gs.ChocoSGD(eta=0.2, gamma=0.4, compressor=compressor), network, steps=3)

    found = case_of(gs.compressors.top_k(share=0.5))
    assert found.upper - 1e-5 < found.lower <= found.upper
    assert found.upper > case_of(gs.compressors.identity()).upper + 1e-3
    assert case_of(gs.compressors.top_k(share=0.1)).upper > found.upper + 1e-3


def test_a_compressor_keeps_what_it_keeps_of_the_given_dimension():
    """Of five numbers top_k(share=0.5) keeps two, so that it may lose 0.6 of ‖a‖²; of a thousand it loses a half."""
    by, ring = gs.compressors.top_k(share=0.5), gs.networks.ring(4)
    rule = gs.ChocoSGD(eta=0.1, gamma=0.3, compressor=by)
    five, most = (gs.worst_case(rule, ring, steps=3, **given) for given in ({"dim": 5}, {}))
    assert five.upper > most.upper * (1 + 1e-6)
    assert "lose at most 0.6 ‖a‖², as top_k(share=0.5) does of d = 5 numbers" in five.holds_for
    assert "d = 1,000" in most.holds_for
    table = theory.worst_cases([rule], gs.problems.quadratic(np.eye(5), np.ones((4, 5))), ring, steps=1, replay=False)
    assert table.rows[0].found.case.dim == 5


def test_no_random_quadratic_is_worse():
    rule, network = gs.BiasedDMT(eta=0.3, lam=0.5), gs.networks.ring(4)
    found = worst_case(rule, network, steps=4, functions=gs.smooth(), excess=1.0, start=1.0, metric="mean_gradient")
    for seed in range(5):
        problem = gs.problems.random_quadratic(4, 3, mu=0.01, smoothness=1.0, seed=seed)
        excess = problem.loss(problem.start) - problem.loss(problem.solution())
        scale = max(excess, problem.heterogeneity(problem.start))
        run = gs.simulate(rule, problem, network, steps=4, every=1, dtype="float64", progress=False)
        assert run.frame().sort("round")["grad_norm_sq"].to_numpy()[:-1].mean() <= found.upper * scale


@rule("wrong-sign")
class WrongSign:
    """D-PSGD that climbs."""

    eta: gs.core.StepSize

    def init(self, x, agent):
        return State(x=x)

    def step(self, s, agent):
        return State(x=agent.gossip(s.x) + self.eta * agent.gradient(s.x))


def test_a_wrong_rule_is_worse():
    wrong = worst_case(WrongSign(eta=0.2), TWO, steps=3)
    assert wrong.upper > worst_case(gs.DPSGD(eta=0.2), TWO, steps=3).upper + 0.5


def test_a_schedule_is_followed():
    constant = worst_case(gs.DPSGD(eta=0.2), TWO, steps=3).upper
    assert worst_case(gs.DPSGD(eta=lambda t: 0.2), TWO, steps=3).upper == pytest.approx(constant, abs=1e-7)
    assert abs(worst_case(gs.DPSGD(eta=lambda t: 0.2 / (t + 1)), TWO, steps=3).upper - constant) > 1e-2


@rule("nesterov")
class _Nesterov:
    """Gradients where the momentum will have taken the models."""

    eta: StepSize

    def init(self, x, agent):
        return State(x=x, m=0 * x)

    def step(self, s, agent):
        m = 0.5 * s.m - self.eta * agent.gradient(s.x + 0.5 * s.m)
        return State(x=agent.gossip(s.x + m), m=agent.gossip(m))


def test_heterogeneity_is_bounded_at_mean_models_only():
    """On a complete graph all agents ask at one point, which is no mean model from round 1 on."""
    found = worst_case(_Nesterov(eta=0.2), gs.networks.complete(3), steps=3, heterogeneity=0.01, start=0.01)
    asked = [p for p in found.case.asked if p.common]
    assert len(asked) == 3
    assert len(found.case.means) == 3
    assert sum(p in found.case.means for p in asked) == 1
    assert sum(c.label == "heterogeneity" for c in found.case.conditions) == 3
    assert found.replayed.violation < 1e-9


def test_a_metric_of_ones_own():
    def last(case, states):
        p = case.look(case.space.mean(states[-1].x))
        return case.of_means(p.g, p.g)

    own = worst_case(gs.DPSGD(eta=0.2), TWO, steps=2, metric=last)
    assert own.upper == pytest.approx(
        worst_case(gs.DPSGD(eta=0.2), TWO, steps=2, metric="last_gradient").upper, abs=1e-6
    )
    assert own.replayed is None


def test_multipliers_that_were_tampered_with_are_refused():
    found = worst_case(gs.GNSD(eta=0.2), TWO, steps=3)
    found.check()
    refused = 0
    for j, y in enumerate(found.proof.y):
        for change in (y - Fraction(1, 100), y + Fraction(1, 100)):
            changed = [*found.proof.y[:j], change, *found.proof.y[j + 1 :]]
            try:
                found.check(changed)
            except NotProven:
                refused += 1
    # more of the start's, or of the bias's, is a weaker bound and no lie
    assert refused >= 2 * len(found.proof.y) - 2


def test_a_matrix_that_is_not_positive_by_a_hair_is_refused():
    from gossamer.worst.program import Program
    from gossamer.worst.spaces import Term

    for least, holds in ((1e-9, True), (-1e-12, False), (0.0, False)):
        program = Program(rounding=2.0**-50)
        block, axes = program.inequality(3), np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
        for size, axis in zip((1.0, 2.0, least), axes, strict=True):
            block.add(-1, [Term(0, axis, axis, size)])
        if holds:
            program.check([])
        else:
            with pytest.raises(NotProven, match="not shown to be positive"):
                program.check([])


def test_rounding_is_bounded_for_certain():
    # the bound on each coordinate against the same arithmetic in fractions
    from gossamer.worst.case import Case, run

    network, rule = gs.networks.path(3), gs.BiasedDMT(eta=0.1, lam=0.3)
    case = Case(Given(network), gs.smooth())
    states = run(rule, case, 6)
    W = [[Fraction(w) for w in row] for row in network.mixing.tolist()]
    eta, lam, rest = Fraction(0.1), Fraction(0.3), Fraction(1 - 0.3)
    columns = case.space.columns

    def leaf(k):
        return [[Fraction(int(3 * k + i == j)) for j in range(columns)] for i in range(3)]

    def mix(a):
        return [[sum(W[i][k] * a[k][j] for k in range(3)) for j in range(columns)] for i in range(3)]

    def combine(*parts):
        return [[sum(w * a[i][j] for w, a in parts) for j in range(columns)] for i in range(3)]

    x, g = combine((0, leaf(0))), leaf(0)
    m = v = g
    for t in range(6):
        wx, wv = mix(x), mix(v)
        x, kept = combine((1, wx), (-eta, v)), m
        m = combine((rest, m), (lam, leaf(t + 1)))
        v = combine((1, wv), (1, m), (-1, kept))
    for name, true in (("x", x), ("v", v)):
        a = states[-1][name]
        c, r = a.wide, np.pad(a.r, [(0, 0), (0, columns - a.r.shape[1])])
        off = [[abs(Fraction(c[i, j]) - true[i][j]) for j in range(columns)] for i in range(3)]
        assert all(off[i][j] <= Fraction(r[i, j]) for i in range(3) for j in range(columns))
        assert max(map(max, off)) > 0
        assert r.max() < 1e-13
