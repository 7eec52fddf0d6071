r"""The steps for which Biased-DMT is stable on quadratics with one curvature, and a heuristic that follows.

For $f_i(x) = \frac12 a (x - b_i)^2$ the modes of Biased-DMT are the roots of

$$ (r - w)^2 (r - 1 + \lambda) + \eta\lambda a\, r (r - 1), \qquad w \in \mathrm{spec}(W) . $$

For $w = 1$ one root is $r = 1$, which no error ever enters (the mean tracker is the mean momentum); the other two are
stable for $\eta\lambda a < 4 - 2\lambda$. A loss with other Hessians may be stable for more or for less: what follows
is a heuristic, not a theorem.
"""

import numpy as np
from jaxtyping import Complex, Float

from gossamer.networks import Network
from gossamer.networks.measures import EXACT_AGENTS

GRID = 400
"""How many steps are tried before bisection; a window of instability between two of them is not seen."""


def modes(w: Complex[np.ndarray, " k"], lam: float, step: Float[np.ndarray, " s"]) -> Complex[np.ndarray, "s k 3"]:
    """Return the roots for every ηa in `step` and every eigenvalue w."""
    w, step = np.asarray(w, complex)[None, :], np.asarray(step, float)[:, None]
    push = step * lam
    # (r − w)²(r − 1 + λ) = r³ + c2 r² + c1 r + c0
    c2 = lam - 1 - 2 * w + push
    c1 = w**2 + 2 * w * (1 - lam) - push
    c0 = (lam - 1) * w**2 + 0 * push
    companion = np.zeros((*np.broadcast_shapes(w.shape, step.shape), 3, 3), complex)
    companion[..., 0, :] = np.stack([-c2, -c1, -c0], axis=-1)
    companion[..., 1, 0] = companion[..., 2, 1] = 1
    return np.linalg.eigvals(companion)


def largest(w: Complex[np.ndarray, " k"], lam: float, step: Float[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
    """Return the largest |r| over all modes for every ηa in `step`, without the root r = 1 of w = 1."""
    w = np.asarray(w, complex)
    ones = np.abs(w - 1) < 1e-9  # the eigenvalue 1, but for rounding
    # r² − (2 − λ − ηλa) r + (1 − λ)
    half = (2 - lam - np.asarray(step) * lam) / 2
    turn = np.sqrt(half.astype(complex) ** 2 - (1 - lam))
    radius = np.maximum(np.abs(half + turn), np.abs(half - turn))
    if not ones.all():
        radius = np.maximum(radius, np.abs(modes(w[~ones], lam, step)).max((1, 2)))
    return radius


def step_limit(network: Network, lam: float, curvature: float) -> float:
    """Return the largest η such that every step up to it is stable, for curvature a and all below."""
    w, top = spectrum(network), (4 - 2 * lam) / lam
    tried = top * np.geomspace(1e-6, 1.0, GRID)
    unstable = largest(w, lam, tried) >= 1
    if not unstable.any():
        return float(top / curvature)
    first = int(unstable.argmax())
    low, high = (tried[first - 1] if first else 0.0), tried[first]
    for _ in range(50):  # halvings, to all digits of a float
        middle = (low + high) / 2
        low, high = (low, middle) if largest(w, lam, np.array([middle]))[0] >= 1 else (middle, high)
    return float(low / curvature)


def spectrum(network: Network) -> Complex[np.ndarray, " k"]:
    """Return the eigenvalues of W; on very large networks 1 and the whole interval that the others lie in."""
    if network.agents <= EXACT_AGENTS:
        return np.linalg.eigvals(network.mixing).astype(complex)
    inside = 1 - (network.gap or 0.0)
    return np.append(np.linspace(-inside, inside, 129), 1.0).astype(complex)
