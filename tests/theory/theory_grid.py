"""The settings on which the coefficients of a round are computed: by the tests, and for the page about the theory."""

import numpy as np

from gossamer.theory import coefficients, kappa

# n × ρ × λ (as a share of its limit) × M_f
N, RHO, SHARE, M = np.meshgrid(
    np.array([1, 2, 3, 4, 5, 7, 10, 20, 50, 100, 1_000, 10_000]),
    np.geomspace(1e-4, 1, 45),
    np.geomspace(1e-4, 1, 13),
    np.array([0, 1e-4, 1e-3, 1 / 512, 1 / 256]),
    indexing="ij",
)


def on_the_grid(form):
    """κ, λ, η and the coefficients, with the largest η that is allowed. L = 1 is no restriction: ηL enters."""
    k = kappa(N, RHO) if form == "repaired" else np.ones(N.shape)
    lam = SHARE * RHO / (4 * np.sqrt(N * k))
    eta = lam / (16 * (1 + M))
    if form == "printed":
        eta = np.minimum(eta, RHO * lam / 8)
    return k, lam, eta, coefficients(N, RHO, 1.0, M, eta, lam, k)
