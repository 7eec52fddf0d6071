"""Random heterogeneous quadratics and affine oracles for the tests of the theory."""

import numpy as np

import gossamer as gs
from gossamer.theory import Affine, Constants, eta_limit, lam_limit, step_limit


def quadratics(n, d, seed=0, spread=1.0, start=1.0):
    """Different Hessians and centres for every agent."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(n, d, d))
    A = roots @ roots.transpose(0, 2, 1) / d + 0.1 * np.eye(d)
    return gs.problems.quadratic(A, spread * rng.normal(size=(n, d)), start=start * rng.normal(size=d))


def affine(n, d, seed=0, delta=0.0, bias=0.0, noise=0.0):
    """Relative errors of norm δ that are no multiples of the identity, constant ones, and correlated noise."""
    rng = np.random.default_rng(seed + 1)
    turned = np.linalg.qr(rng.normal(size=(n, d, d)))[0]
    roots = rng.normal(size=(n, d, d)) / np.sqrt(d)
    return Affine(delta * turned, bias * rng.normal(size=(n, d)), noise**2 * roots @ roots.transpose(0, 2, 1))


def known(problem, network, oracle, heterogeneity=0.0):
    """The constants that hold exactly on a quadratic."""
    return Constants(
        problem.agents,
        network.gap,
        problem.smoothness,
        problem.loss(problem.start) - problem.loss(problem.solution()),
        heterogeneity=heterogeneity,
        **oracle.constants,
    )


def allowed(constants, form, share=1.0):
    """η and λ on the edge of what the theorem covers, or a share of it."""
    lam = share * lam_limit(constants, form)
    return eta_limit(constants, lam, form), lam


def pool():
    """Settings of many kinds, as the arguments of `propagate`: stable steps, and steps that the theorem covers."""
    drawn = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, d = int(rng.choice([2, 3, 4, 6])), int(rng.choice([1, 2]))
        network = [gs.networks.complete(n), gs.networks.path(n), gs.networks.ring(max(n, 3))][rng.integers(3)]
        n = network.agents
        problem = quadratics(n, d, seed, spread=rng.choice([0, 1, 5]), start=rng.choice([0, 1, 10]))
        if rng.random() < 0.3:
            problem = gs.problems.quadratic(problem.A, problem.b, start=problem.solution())
        oracle = affine(n, d, seed, rng.choice([0, 1 / 23, 0.5]), rng.choice([0, 1]), rng.choice([0, 0.3, 2]))
        if rng.random() < 0.4:  # errors that all agents share, which no averaging removes
            same = np.repeat(-rng.choice([0, 0.5]) * np.eye(d)[None], n, 0)
            oracle = Affine(same, np.repeat(oracle.bias[:1], n, 0), oracle.covariance)
        lam = float(rng.choice([1, 0.5, 0.1, 0.01]))
        eta = rng.choice([1, 0.1, 0.01]) * min(1 / problem.smoothness, step_limit(network, lam, problem.smoothness))
        if rng.random() < 0.3 and oracle.constants["relative"] < 1 / 256:
            eta, lam = allowed(known(problem, network, oracle), "printed")
        drawn.append((problem, network, oracle, float(eta), lam, 150))
    return [*drawn, tight(), common_bias(), only_noise(), long()]


def tight():
    """The two agents whose relative bias attains M_f ζ²."""
    problem, network = gs.problems.quadratic([[1.0]], [[1.0], [-1.0]]), gs.networks.complete(2)
    oracle = Affine(np.array([[[1 / 16]], [[-1 / 16]]]), np.zeros((2, 1)), np.zeros((2, 1, 1)))
    return problem, network, oracle, *allowed(known(problem, network, oracle), "printed"), 6_000


def common_bias():
    """Every agent has the same constant error: the floor is σ_f² itself."""
    problem, network = gs.problems.quadratic([[1.0]], [[1.0], [0.0], [-1.0]]), gs.networks.complete(3)
    oracle = Affine(np.zeros((3, 1, 1)), np.ones((3, 1)), np.zeros((3, 1, 1)))
    return problem, network, oracle, *allowed(known(problem, network, oracle), "printed"), 3_000


def only_noise():
    problem, network = gs.problems.quadratic([[1.0]], np.zeros((2, 1))), gs.networks.complete(2)
    oracle = Affine(np.zeros((2, 1, 1)), np.zeros((2, 1)), np.ones((2, 1, 1)))
    return problem, network, oracle, *allowed(known(problem, network, oracle), "printed"), 20_000


def long():
    """A long way down without noise."""
    problem, network = quadratics(3, 1, start=100.0), gs.networks.complete(3)
    oracle = affine(3, 1)
    return problem, network, oracle, *allowed(known(problem, network, oracle), "printed"), 400
