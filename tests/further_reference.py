"""More algorithms as plain NumPy loops, as in `reference`: loops inside a round, steps that adapt, rows alone."""

import numpy as np

from tests.reference import biased_dmt, largest, warmed


def local_biased_dmt(X, W, g, T, eta, lam, inner, local, warm=0):
    M = g(X)
    V = warmed(M, W, warm)
    for _ in range(T):
        X, c = W @ X - eta * V, V - M
        Y = X
        for _ in range(local):
            Y = Y - inner * (g(Y) + c)
        new = (1 - lam) * M + lam * ((X - Y) / (local * inner) - c)
        V, M = W @ V + new - M, new
    return X


def pseudo_gradients(X, W, g, T, eta, lam, inner, local):
    """Biased-DMT fed with what local steps of plain SGD return as a gradient."""

    def walked(X):
        Y = X
        for _ in range(local):
            Y = Y - inner * g(Y)
        return (X - Y) / (local * inner)

    return biased_dmt(X, W, walked, T, eta, lam)


def k_gt(X, W, g, T, eta, inner, local, warm="mean"):
    c = warmed(g(X), W, warm) - g(X)
    for _ in range(T):
        Y = X
        for _ in range(local):
            Y = Y - inner * (g(Y) + c)
        Z = (X - Y) / (local * inner)
        X, c = W @ (X - eta * Z), c - Z + W @ Z
    return X


def gt_adam(X, W, g, T, eta, beta1, beta2, eps, cap, warm=0):
    m = u = np.zeros_like(X)
    G = g(X)
    S = warmed(G, W, warm)
    for _ in range(T):
        m = beta1 * m + (1 - beta1) * S
        u = np.minimum(beta2 * u + (1 - beta2) * S**2, cap)
        X, old = W @ X - eta * m / np.sqrt(u + eps), G
        G = g(X)
        S = W @ S + G - old
    return X


def d_adamw(X, W, g, T, eta, beta1, beta2, eps, decay):
    m = u = np.zeros_like(X)
    for t in range(1, T + 1):
        G = g(X)
        m, u = beta1 * m + (1 - beta1) * G, beta2 * u + (1 - beta2) * G**2
        step = (m / (1 - beta1**t)) / (np.sqrt(u / (1 - beta2**t)) + eps)
        X = (1 - eta * decay) * (W @ X) - eta * step
    return X


def d_amsgrad(X, W, g, T, eta, beta1, beta2, eps):
    m = np.zeros_like(X)
    v = vhat = u = np.full_like(X, eps)
    for _ in range(T):
        G, old = g(X), vhat
        m, v = beta1 * m + (1 - beta1) * G, beta2 * v + (1 - beta2) * G**2
        vhat, u = np.maximum(vhat, v), W @ u
        X = W @ X - eta * m / np.sqrt(np.maximum(u, eps))
        u = u - old + vhat
    return X


def gt_nsgdm(X, W, g, T, eta, lam, warm=0):
    M = g(X) if warm else np.zeros_like(X)
    V = warmed(M, W, warm)
    for _ in range(T):
        new = (1 - lam) * M + lam * g(X)
        V, M = W @ (V + new - M), new
        X = W @ np.array([x - eta * v / np.sqrt((v**2).sum()) for x, v in zip(X, V, strict=True)])
    return X


def gt_sarah(X, W, g, T, eta, recursions, warm=0):
    V = g(X) if warm else np.zeros_like(X)
    Y = warmed(V, W, warm)
    before = X
    for _ in range(T):
        for k in range(recursions + 1):
            new = V + g(X) - g(before) if k else g(X)
            Y, V = W @ Y + new - V, new
            before, X = X, W @ X - eta * Y
    return X


def gt_svrg(X, W, g, T, eta, corrections, warm=0):
    V = g(X) if warm else np.zeros_like(X)
    Y = warmed(V, W, warm)
    for _ in range(T):
        snapshot, full = X, g(X)
        for k in range(corrections + 1):
            new = g(X) - g(snapshot) + full if k else full
            Y, V = W @ Y + new - V, new
            X = W @ X - eta * Y
    return X


def cedas(X, W, g, T, eta, gamma, compressor, alpha):
    H, D = X, np.zeros_like(X)
    for _ in range(T):
        X = X - eta * g(X)
        made = H + largest(X - D - H, compressor.k)
        H, D = (1 - alpha) * H + alpha * made, D + gamma / 2 * (made - W @ made)
        X = X - D
    return X


def relay_sgd(X, W, g, T, eta):
    """A message for each direction of each link, and how many models are in it, as the authors have it."""
    n, start = len(X), X[0]
    links = [[j for j in range(n) if j != i and W[i, j] != 0] for i in range(n)]
    sums = {(i, j): 0 * start for i in range(n) for j in links[i]}
    counts = dict.fromkeys(sums, 0)
    for _ in range(T):
        X = X - eta * g(X)
        sums, counts = (
            {(i, j): X[i] + sum(sums[k, i] for k in links[i] if k != j) for i, j in sums},
            {(i, j): 1 + sum(counts[k, i] for k in links[i] if k != j) for i, j in sums},
        )
        missing = [n - 1 - sum(counts[j, i] for j in links[i]) for i in range(n)]
        X = np.array([X[i] + sum(sums[j, i] for j in links[i]) + missing[i] * start for i in range(n)]) / n
    return X


def frost(X, W, g, T, eta):
    R, P = W[0], np.eye(len(X))
    G = g(X)
    Z = G
    for _ in range(T):
        X, P, old = R @ X - eta * Z, R @ P, G
        G = g(X) / np.diag(P)[:, None]
        Z = R @ Z + G - old
    return X


def combined(X, W, by):
    """What an aggregator with a radius, or one that trims, makes of every agent's row and its neighbours'."""
    made = []
    for i, own in enumerate(X):
        others = [j for j in range(len(X)) if j != i and W[i, j] != 0]
        if hasattr(by, "radius"):
            distances = [np.linalg.norm(X[j] - own) for j in others]
            radius = sorted(distances)[-2:][0] if by.radius is None else by.radius
            kept = [min(1, radius / r) if r else 1 for r in distances]
            made.append(own + sum(W[i, j] * k * (X[j] - own) for j, k in zip(others, kept, strict=True)))
        else:
            values = np.sort(np.vstack([own, X[others]]), axis=0)
            k = (len(values) - 1) // 2 if by.trim is None else by.trim
            made.append(values[k : len(values) - k].mean(0))
    return np.stack(made)


def robust_dsgd(X, W, g, T, eta, lam, aggregator):
    m = g(X)
    for _ in range(T):
        X = combined(X - eta * m, W, aggregator)
        m = (1 - lam) * m + lam * g(X)
    return X
