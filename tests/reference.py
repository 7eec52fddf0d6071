"""Every algorithm as a plain NumPy loop, from its equations: X is [agents, d], g(X) the gradients, T rounds.

Written apart from the rules, to check them against. `further_reference` has those with loops inside a round, and those
whose steps adapt.
"""

import numpy as np


def warmed(A, W, warm):
    """The rows after so many gossips, or all of them their mean."""
    if warm == "mean":
        return np.tile(A.mean(0), (len(A), 1))
    return np.linalg.matrix_power(W, warm) @ A if warm else A


def d_psgd(X, W, g, T, eta):
    for _ in range(T):
        X = W @ X - eta * g(X)
    return X


def d_psgd_atc(X, W, g, T, eta):
    for _ in range(T):
        X = W @ (X - eta * g(X))
    return X


def dsgdm(X, W, g, T, eta, beta):
    m = 0
    for _ in range(T):
        m = beta * m + g(X)
        X = W @ (X - eta * m)
    return X


def dsgdm_gossip(X, W, g, T, eta, beta):
    m = 0
    for _ in range(T):
        m = beta * m + g(X)
        X = W @ (X - eta * m)
        m = W @ m
    return X


def gnsd(X, W, g, T, eta, warm=0):
    G = g(X)
    Y = warmed(G, W, warm)
    for _ in range(T):
        X, old = W @ X - eta * Y, G
        G = g(X)
        Y = W @ Y + G - old
    return X


def dsgt(X, W, g, T, eta, warm=0):
    G = g(X)
    Y = warmed(G, W, warm)
    for _ in range(T):
        X, old = W @ (X - eta * Y), G
        G = g(X)
        Y = W @ Y + G - old
    return X


def gt_dsgd(X, W, g, T, eta, warm=0):
    G = g(X)
    Y = warmed(W @ G, W, warm)
    for _ in range(T):
        X, old = W @ (X - eta * Y), G
        G = g(X)
        Y = W @ (Y + G - old)
    return X


def momentum_tracking(X, W, g, T, eta, beta, warm="mean"):
    G = g(X)
    u = c = (G - warmed(G, W, warm)) / (1 - beta)
    for _ in range(T):
        u = beta * u + g(X)
        X = W @ X - eta * (u - c)
        c = W @ (c - u) + u
    return X


def biased_dmt(X, W, g, T, eta, lam, warm=0):
    M = g(X)
    V = warmed(M, W, warm)
    for _ in range(T):
        X = W @ X - eta * V
        new = (1 - lam) * M + lam * g(X)
        V = W @ V + new - M
        M = new
    return X


def centralized_sgd(X, W, g, T, eta):
    for _ in range(T):
        X = X - eta * g(X).mean(0)
    return X


def centralized_momentum(X, W, g, T, eta, lam):
    m = g(X).mean(0)
    for _ in range(T):
        X = X - eta * m
        m = (1 - lam) * m + lam * g(X).mean(0)
    return X


def biased_dmt_atc(X, W, g, T, eta, lam, warm=0):
    M = g(X)
    V = warmed(W @ M, W, warm)
    for _ in range(T):
        X = W @ (X - eta * V)
        new = (1 - lam) * M + lam * g(X)
        V = W @ (V + new - M)
        M = new
    return X


def d2(X, W, g, T, eta):
    before, X = X, W @ (X - eta * g(X))
    for _ in range(T - 1):
        before, X = X, W @ (2 * X - before - eta * (g(X) - g(before)))
    return X


def exact_diffusion(X, W, g, T, eta):
    psi, half = X, (np.eye(len(W)) + W) / 2
    for _ in range(T):
        new = X - eta * g(X)
        X, psi = half @ (new + X - psi), new
    return X


def extra(X, W, g, T, eta):
    both = np.eye(len(W)) + W
    before, X = X, W @ X - eta * g(X)
    for _ in range(T - 1):
        before, X = X, both @ X - both @ before / 2 - eta * (g(X) - g(before))
    return X


def stem(X, W, g, T, eta, a):
    d = g(X)
    for _ in range(T):
        X, before = X - eta * d.mean(0), X
        d = g(X) + (1 - a) * (d - g(before))
    return X


def gt_hsgd(X, W, g, T, eta, a, warm=0):
    d = g(X)
    Y = warmed(W @ d, W, warm)
    for _ in range(T):
        X, before = W @ (X - eta * Y), X
        new = g(X) + (1 - a) * (d - g(before))
        Y, d = W @ (Y + new - d), new
    return X


def gt_storm(X, W, g, T, eta, a, warm=0):
    d = g(X)
    Y = warmed(d, W, warm)
    for _ in range(T):
        X, before = W @ X - eta * Y, X
        new = g(X) + (1 - a) * (d - g(before))
        Y, d = W @ Y + new - d, new
    return X


def decentlam(X, W, g, T, eta, beta):
    m = 0
    for _ in range(T):
        m = beta * m + (X - W @ (X - eta * g(X))) / eta
        X = X - eta * m
    return X


def qg_dsgdm(X, W, g, T, eta, beta):
    m = 0
    for _ in range(T):
        new = W @ (X - eta * (beta * m + g(X)))
        m = beta * m + (1 - beta) * (X - new) / eta
        X = new
    return X


def largest(A, k):
    """Every row with all but its k entries of largest size set to zero."""
    kept = np.argsort(-np.abs(A), axis=1, kind="stable")[:, :k]
    C = np.zeros_like(A)
    np.put_along_axis(C, kept, np.take_along_axis(A, kept, 1), 1)
    return C


def choco_sgd(X, W, g, T, eta, gamma, compressor):
    H = np.zeros_like(X)
    for _ in range(T):
        X = X - eta * g(X)
        H = H + largest(X - H, compressor.k)
        X = X + gamma * (W @ H - H)
    return X


def direct_dsgd(X, W, g, T, eta, gamma, compressor):
    for _ in range(T):
        X = X - eta * g(X)
        Q = largest(X, compressor.k)
        X = X + gamma * (W @ Q - Q)
    return X


def motef(X, W, g, T, eta, lam, gamma, compressor, warm=0):
    M = g(X)
    V = warmed(M, W, warm)
    H = G = np.zeros_like(X)
    for _ in range(T):
        X = X + gamma * (W @ H - H) - eta * V
        H = H + largest(X - H, compressor.k)
        new = (1 - lam) * M + lam * g(X)
        V, M = V + gamma * (W @ G - G) + new - M, new
        G = G + largest(V - G, compressor.k)
    return X


def beer(X, W, g, T, eta, gamma, compressor, warm=0):
    return motef(X, W, g, T, eta, 1.0, gamma, compressor, warm)


def docom(X, W, g, T, eta, a, gamma, compressor, warm=0):
    D = g(X)
    Y = warmed(D, W, warm)
    H = G = np.zeros_like(X)
    for _ in range(T):
        before, half = X, X - eta * Y
        H = H + largest(half - H, compressor.k)
        X = half + gamma * (W @ H - H)
        new = g(X) + (1 - a) * (D - g(before))
        half, D = Y + new - D, new
        G = G + largest(half - G, compressor.k)
        Y = half + gamma * (W @ G - G)
    return X


def lead(X, W, g, T, eta, gamma, compressor, alpha):
    H = D = np.zeros_like(X)
    for _ in range(T):
        G = g(X)
        Q = largest(X - eta * G - eta * D - H, compressor.k)
        Yhat, H = H + Q, H + alpha * Q
        D = D + gamma / (2 * eta) * (Yhat - W @ Yhat)
        X = X - eta * G - eta * D
    return X


# On directed graphs `W` is the pair of a row-stochastic R and a column-stochastic C.


def sgp(X, W, g, T, eta, beta):
    C, m, w = W[1], 0, np.ones((len(X), 1))
    U = X
    for _ in range(T):
        m = beta * m + g(U / w)
        U, w = C @ (U - eta * m), C @ w
    return U / w


def push_pull(X, W, g, T, eta, warm=0):
    R, C = W
    G = g(X)
    Y = warmed(G, C, warm)
    for _ in range(T):
        X, old = R @ (X - eta * Y), G
        G = g(X)
        Y = C @ Y + G - old
    return X


def push_pull_dmt(X, W, g, T, eta, lam, warm=0):
    R, C = W
    M = g(X)
    V = warmed(M, C, warm)
    for _ in range(T):
        X = R @ X - eta * V
        new = (1 - lam) * M + lam * g(X)
        V, M = C @ V + new - M, new
    return X


def push_diging(X, W, g, T, eta, warm=0):
    C, U, w = W[1], X, np.ones((len(X), 1))
    G = g(X)
    Y = warmed(G, C, warm)
    for _ in range(T):
        U, w, old = C @ (U - eta * Y), C @ w, G
        G = g(U / w)
        Y = C @ Y + G - old
    return U / w


def push_diging_dmt(X, W, g, T, eta, lam, warm=0):
    C, U, w = W[1], X, np.ones((len(X), 1))
    M = g(X)
    V = warmed(M, C, warm)
    for _ in range(T):
        U, w = C @ U - eta * V, C @ w
        new = (1 - lam) * M + lam * g(U / w)
        V, M = C @ V + new - M, new
    return U / w
