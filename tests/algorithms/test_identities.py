"""Exact relations between the algorithms."""

import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer.core import State
from tests import plain

PROBLEM, E = plain.heterogeneous()
G = plain.gradient_of(PROBLEM, E)
X0 = np.ones((8, 5))
W = plain.irregular().mixing
J = np.full((8, 8), 1 / 8)


def path(rule, W=W, g=G, steps=50):
    return np.array([s.x for s in plain.states(rule, X0, W, g, steps)])


def same(a, b):
    return np.allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lam", [0.1, 0.5, 1.0])
def test_biased_dmt_is_momentum_tracking_in_other_coordinates(lam):
    eta = 0.05
    other = gs.MomentumTracking(eta=lam * eta, beta=1 - lam)
    s = State(x=X0, u=G(X0) / lam, c=0 * X0, g=G(X0))
    # the first momentum already holds g⁰, so the start holds one sample less
    s = State(x=X0, u=(s.u - s.g) / (1 - lam) if lam < 1 else 0 * X0, c=s.c, g=s.g)
    found = [s.x]
    for _ in range(50):
        s = other.step(s, plain.NumpyAgents(W, G))
        found.append(s.x)
    assert same(found, path(gs.BiasedDMT(eta=eta, lam=lam)))


def test_biased_dmt_without_momentum_is_gnsd_and_not_the_other_trackers():
    dmt = path(gs.BiasedDMT(eta=0.05, lam=1))
    assert same(dmt, path(gs.GNSD(eta=0.05)))
    assert not same(dmt, path(gs.DSGT(eta=0.05)))
    assert not same(dmt, path(gs.GTDSGD(eta=0.05)))


@pytest.mark.parametrize("kind", [gs.DSGDm, gs.DSGDmGossip, gs.DecentLaM, gs.QGDSGDm, gs.SGP])
def test_momentum_that_keeps_nothing_is_d_psgd(kind):
    assert same(path(kind(eta=0.05, beta=0)), path(gs.DPSGDATC(eta=0.05)))


def test_biased_dsgd_is_d_psgd():
    assert same(path(gs.BiasedDSGD(eta=0.05)), path(gs.DPSGD(eta=0.05)))


def test_on_a_complete_graph_d_psgd_atc_is_centralised_sgd():
    assert same(path(gs.DPSGDATC(eta=0.05), J), path(gs.CentralizedSGD(eta=0.05)))


def test_on_a_complete_graph_biased_dmt_is_not_centralised_momentum():
    dmt = path(gs.BiasedDMT(eta=0.05, lam=0.3), J)
    assert not same(dmt.mean(1), path(gs.CentralizedMomentum(eta=0.05, lam=0.3)).mean(1))


def test_centralised_momentum_without_momentum_is_centralised_sgd():
    assert same(path(gs.CentralizedMomentum(eta=0.05, lam=1)), path(gs.CentralizedSGD(eta=0.05)))


def test_with_equal_hessians_and_additive_noise_the_mean_follows_centralised_momentum():
    def noisy():
        rng = np.random.default_rng(3)
        return lambda X: (X - PROBLEM.b) @ PROBLEM.A[0] + E + rng.normal(size=X.shape)

    dmt = path(gs.BiasedDMT(eta=0.05, lam=0.3), W, noisy())
    assert same(dmt.mean(1), path(gs.CentralizedMomentum(eta=0.05, lam=0.3), W, noisy()).mean(1))
    assert not same(dmt[:, 0], dmt[:, 1])


def test_adapt_then_combine_form_without_momentum_is_gt_dsgd():
    assert same(path(gs.BiasedDMTATC(eta=0.05, lam=1)), path(gs.GTDSGD(eta=0.05)))


def test_on_a_complete_graph_the_adapt_then_combine_form_is_centralised_momentum():
    atc = path(gs.BiasedDMTATC(eta=0.05, lam=0.3), J)
    assert same(atc, path(gs.CentralizedMomentum(eta=0.05, lam=0.3)))


def copied(rule, g):
    """The path of a compressed rule from copies that are already right: H⁰ = X⁰ and G⁰ = V⁰."""
    s = rule.init(X0, plain.NumpyAgents(W, g))
    return begun(rule, g, h=s.x, wh=W @ s.x, g=s.v, wg=W @ s.v)


def begun(rule, gradient, /, **changed):
    """The path of a rule from a start that is changed."""
    agents = plain.NumpyAgents(W, gradient)
    s = State(**dict(rule.init(X0, agents)) | changed)
    found = [s.x]
    for _ in range(50):
        s = rule.step(s, agents)
        found.append(s.x)
    return np.array(found)


@pytest.mark.parametrize("gamma", [1.0, 0.4])
def test_motef_without_compression_is_biased_dmt(gamma):
    motef = copied(gs.MoTEF(eta=0.05, lam=0.3, gamma=gamma, compressor=plain.Nothing()), G)
    mixing = np.eye(8) + gamma * (W - np.eye(8))
    assert same(motef, path(gs.BiasedDMT(eta=0.05, lam=0.3), mixing))


def test_beer_without_compression_is_gnsd_and_is_motef_without_momentum():
    beer = gs.BEER(eta=0.05, gamma=1, compressor=plain.Nothing())
    assert same(copied(beer, G), path(gs.GNSD(eta=0.05)))
    assert same(path(beer), path(gs.MoTEF(eta=0.05, lam=1, gamma=1, compressor=plain.Nothing())))


def test_choco_without_compression_is_d_psgd():
    choco = gs.ChocoSGD(eta=0.05, gamma=1, compressor=plain.Nothing())
    assert same(path(choco), path(gs.DPSGDATC(eta=0.05)))


def test_direct_dsgd_without_compression_is_d_psgd():
    direct = gs.DirectDSGD(eta=0.05, gamma=1, compressor=plain.Nothing())
    assert same(path(direct), path(gs.DPSGDATC(eta=0.05)))


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_lead_without_compression_is_exact_diffusion(alpha):
    lead = gs.LEAD(eta=0.05, gamma=1, compressor=plain.Nothing(), alpha=alpha)
    assert same(path(lead), path(gs.ExactDiffusion(eta=0.05)))


def test_docom_without_compression_is_gt_hsgd_from_its_start():
    docom = gs.DoCoM(eta=0.05, a=0.3, gamma=1, compressor=plain.Nothing())
    assert same(path(docom), begun(gs.GTHSGD(eta=0.05, a=0.3), G, y=G(X0)))
    assert not same(path(docom), path(gs.GTHSGD(eta=0.05, a=0.3)))


def test_one_local_step_is_biased_dmt_whatever_its_size():
    dmt = path(gs.BiasedDMT(eta=0.05, lam=0.3))
    assert same(path(gs.LocalBiasedDMT(eta=0.05, lam=0.3, inner=0.02, local=1)), dmt)
    assert same(path(gs.LocalBiasedDMT(eta=0.05, lam=0.3, inner=0.7, local=1)), dmt)
    assert not same(path(gs.LocalBiasedDMT(eta=0.05, lam=0.3, inner=0.02, local=2)), dmt)


def test_gt_adam_whose_second_moment_is_bounded_away_is_gnsd():
    adam = gs.GTAdam(eta=0.1, beta1=0, eps=4.0, cap=1e-20)
    assert same(path(adam), path(gs.GNSD(eta=0.05)))


def test_d_amsgrad_whose_second_moment_never_grows_is_d_psgd():
    amsgrad = gs.DAMSGrad(eta=5.0, beta1=0, eps=1e4)
    assert same(path(amsgrad), path(gs.DPSGD(eta=0.05)))


def test_on_a_complete_graph_gt_nsgdm_is_centralised_and_normalised():
    found = path(gs.GTNSGDm(eta=0.05, lam=0.3), J)
    x, m = X0[0], 0 * X0[0]
    for agents in found:
        assert same(agents, x)
        m = 0.7 * m + 0.3 * G(np.tile(x, (8, 1))).mean(0)
        x = x - 0.05 * m / np.linalg.norm(m)


def test_gt_nsgdm_stays_where_there_is_no_gradient():
    assert same(path(gs.GTNSGDm(eta=0.05, lam=0.3), g=lambda X: 0 * X), X0)


def test_a_round_of_gt_sarah_with_exact_gradients_is_several_of_gnsd():
    sarah = path(gs.GTSARAH(eta=0.05, recursions=2), steps=16)
    assert same(sarah, path(gs.GNSD(eta=0.05), steps=48)[::3])


def test_a_round_of_gt_svrg_with_exact_gradients_is_several_of_gnsd():
    svrg = path(gs.GTSVRG(eta=0.05, corrections=2), steps=16)
    assert same(svrg, path(gs.GNSD(eta=0.05), steps=48)[::3])


class Sampling(plain.NumpyAgents):
    """Gradients of another sample in each call, with noise that grows with the model; over all samples it is gone."""

    def __init__(self):
        super().__init__(W, G)
        self.rng = np.random.default_rng(4)

    def gradient(self, *points):
        noise = self.rng.normal(size=(8, 1))
        return tuple(G(x) + noise * x for x in points)

    def full_gradient(self, *points):
        return super().gradient(*points)


def test_gt_svrg_is_gt_sarah_up_to_the_second_correction():
    """Both correct the full gradient once; then one corrects it again, and the other its estimate."""

    def models(corrections):
        rules = gs.GTSVRG(eta=0.05, corrections=corrections), gs.GTSARAH(eta=0.05, recursions=corrections)
        return [rule.step(rule.init(X0, plain.NumpyAgents(W, G)), Sampling()).x for rule in rules]

    assert same(*models(1))
    assert not same(*models(2))


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_cedas_is_lead_from_other_copies_and_without_compression_exact_diffusion(alpha):
    class Coarse(plain.Nothing):
        def compress(self, key, a):
            return np.round(a, 1)

    given = {"eta": 0.05, "gamma": 0.5, "compressor": Coarse(), "alpha": alpha}
    assert same(path(gs.CEDAS(**given)), begun(gs.LEAD(**given), G, h=X0, apart=X0 - W @ X0))
    exact = gs.CEDAS(eta=0.05, gamma=1, compressor=plain.Nothing(), alpha=alpha)
    assert same(path(exact), path(gs.ExactDiffusion(eta=0.05)))


def test_the_dual_of_cedas_is_that_of_lead_times_the_step():
    """At the optimum both stay; with a smaller step LEAD stays still, and CEDAS has to learn its dual anew."""
    optimum, agents = np.tile(PROBLEM.solution(E), (8, 1)), plain.NumpyAgents(W, G)
    given = {"gamma": 0.5, "compressor": plain.Nothing()}
    for kind, dual, stays in ((gs.CEDAS, -0.05 * G(optimum), False), (gs.LEAD, -G(optimum), True)):
        s = State(x=optimum, d=dual, h=optimum, apart=optimum - W @ optimum)
        assert same(kind(eta=0.05, **given).step(s, agents).x, optimum)
        assert same(kind(eta=0.02, **given).step(s, agents).x, optimum) is stays


def test_relay_sgd_has_every_model_once_and_as_late_as_it_is_far():
    network = plain.tree()
    far = dict(
        nx.all_pairs_shortest_path_length(nx.from_numpy_array(network.mixing - np.diag(np.diag(network.mixing))))
    )
    found = path(gs.RelaySGD(eta=0.05), network.mixing)
    moved = [X - 0.05 * G(X) for X in found]
    for t in range(50):
        late = [[t - max(0, far[i][j] - 1) for j in range(8)] for i in range(8)]
        heard = [[moved[late[i][j]][j] if late[i][j] >= 0 else X0[j] for j in range(8)] for i in range(8)]
        assert same(found[t + 1], np.mean(heard, axis=1))


def test_relay_sgd_on_one_link_is_centralised():
    pair = np.full((2, 2), 0.5)
    made = [
        plain.states(kind(eta=0.05), X0[:2], pair, lambda X: G(np.vstack([X, X0[2:]]))[:2], 20)[-1].x
        for kind in (gs.RelaySGD, gs.CentralizedSGD)
    ]
    assert same(*made)


def test_robust_dsgd_that_clips_nothing_and_has_no_momentum_is_d_psgd():
    robust = gs.RobustDSGD(eta=0.05, lam=1, aggregator=gs.aggregators.clipped(float("inf")))
    assert same(path(robust), path(gs.DPSGDATC(eta=0.05)))


def test_robust_dsgd_that_trims_nothing_on_a_complete_graph_is_centralised_sgd():
    robust = gs.RobustDSGD(eta=0.05, lam=1, aggregator=gs.aggregators.trimmed_mean(0))
    assert same(path(robust, J), path(gs.CentralizedSGD(eta=0.05)))


def test_d2_on_half_of_the_identity_is_exact_diffusion():
    assert same(path(gs.D2(eta=0.05), (np.eye(8) + W) / 2), path(gs.ExactDiffusion(eta=0.05)))


@pytest.mark.parametrize(
    ("reduced", "plain_rule"),
    [
        (gs.GTHSGD(eta=0.05, a=1), gs.GTDSGD(eta=0.05)),
        (gs.GTSTORM(eta=0.05, a=1), gs.GNSD(eta=0.05)),
        (gs.STEM(eta=0.05, a=1), gs.CentralizedSGD(eta=0.05)),
    ],
    ids=lambda rule: rule.name,
)
def test_variance_reduction_that_forgets_at_once_is_plain(reduced, plain_rule):
    assert same(path(reduced), path(plain_rule))


def test_variance_reduction_on_a_complete_graph_is_stem():
    """From equal starts: adapt then combine, like the parameter server, moves all along the mean direction."""
    assert same(path(gs.GTHSGD(eta=0.05, a=0.3), J), path(gs.STEM(eta=0.05, a=0.3)))


@pytest.mark.parametrize(
    ("directed", "undirected"),
    [
        (gs.SGP(eta=0.05, beta=0), gs.DPSGDATC(eta=0.05)),
        (gs.SGP(eta=0.02, beta=0.8), gs.DSGDm(eta=0.02, beta=0.8)),
        (gs.PushPull(eta=0.05), gs.DSGT(eta=0.05)),
        (gs.PushDIGing(eta=0.05), gs.DSGT(eta=0.05)),
        (gs.PushPullDMT(eta=0.05, lam=0.3), gs.BiasedDMT(eta=0.05, lam=0.3)),
        (gs.PushDIGingDMT(eta=0.05, lam=0.3), gs.BiasedDMT(eta=0.05, lam=0.3)),
    ],
    ids=str,
)
def test_rules_for_directed_graphs_with_doubly_stochastic_weights(directed, undirected):
    assert same(path(directed), path(undirected))


def test_frost_with_doubly_stochastic_weights_is_gnsd_once_it_knows_that():
    """The sum of eight gradients for their mean, and an eighth of the step."""
    frost = begun(gs.FROST(eta=0.05 / 8), G, p=J, z=8 * G(X0), g=8 * G(X0))
    assert same(frost, path(gs.GNSD(eta=0.05)))


@pytest.mark.parametrize("kind", [gs.PushPullDMT, gs.PushDIGingDMT])
def test_directed_biased_dmt_without_momentum_tracks_the_gradient(kind):
    """On directed weights: the sum of the trackers is the sum of the gradients, whatever the graph."""
    network = plain.directed()
    pair = tuple(network.matrix(0, by).toarray() for by in "RC")
    rule = kind(eta=0.03, lam=1.0)
    for s in plain.states(rule, X0, pair, G, 40):
        np.testing.assert_allclose(s.v.sum(0), G(s.x).sum(0), atol=1e-11)


@pytest.mark.parametrize(("eta", "lam", "a"), [(0.1, 0.2, 1.0), (0.5, 0.05, 2.0), (0.3, 1.0, 0.7)])
def test_modes_of_biased_dmt_are_the_roots_of_its_characteristic_polynomial(eta, lam, a):
    r"""For $f_i = \frac a2 (x - b_i)^2$: $(r-w)^2 (r-1+\lambda) + \eta\lambda a\, r (r-1)$ over the spectrum of W."""
    ring = gs.networks.ring(6).mixing
    rule, agents = gs.BiasedDMT(eta=eta, lam=lam), plain.NumpyAgents(ring, lambda x: a * x)

    def step(z):
        s = rule.step(State(**dict(zip("xmv", z.reshape(3, 6, 1), strict=True))), agents)
        return np.concatenate([s.x, s.m, s.v]).ravel()

    matrix = np.array([step(column) for column in np.eye(18)]).T
    expected = []
    for w in np.linalg.eigvalsh(ring):
        square = np.polymul([1, -w], [1, -w])
        expected.extend(np.roots(np.polyadd(np.polymul(square, [1, lam - 1]), eta * lam * a * np.array([1, -1, 0]))))
    # as polynomials: eigenvalues that coincide are found only to the root of the rounding error
    np.testing.assert_allclose(np.poly(matrix), np.poly(np.array(expected)), atol=1e-10)


def test_relative_bias_of_two_agents_attains_its_bound():
    r"""$f = \frac L2 (x \mp b)^2$ and $\tilde g = (1 \pm \delta) \nabla f$ settle at $x = \delta b$, where
    $\|\nabla F\|^2 = M_f \zeta^2$ with $M_f = \delta^2$."""
    L, b, delta = 2.0, 1.5, 0.3
    problem = gs.problems.quadratic([[L]], [[b], [-b]])
    relative = gs.oracles.custom(lambda g, x, site: (1 + delta * (1 - 2 * site.agent)) * g)
    network = gs.networks.complete(2)
    result = gs.simulate(gs.BiasedDMT(eta=0.1, lam=0.5), problem, network, relative, steps=2000, dtype="float64")
    x = result.iterates["biased-dmt"][0].mean(0)
    np.testing.assert_allclose(x, [delta * b], atol=1e-10)
    assert (problem.gradient(x) ** 2).sum() == pytest.approx(delta**2 * problem.heterogeneity(x), rel=1e-10)
