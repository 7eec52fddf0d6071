"""Every algorithm as a plain NumPy loop, from its equations: X is [agents, d], g(X) the gradients, T rounds.

Written apart from the rules, to check them against.
"""


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


def gnsd(X, W, g, T, eta):
    G = g(X)
    Y = G
    for _ in range(T):
        X, old = W @ X - eta * Y, G
        G = g(X)
        Y = W @ Y + G - old
    return X


def dsgt(X, W, g, T, eta):
    G = g(X)
    Y = G
    for _ in range(T):
        X, old = W @ (X - eta * Y), G
        G = g(X)
        Y = W @ Y + G - old
    return X


def gt_dsgd(X, W, g, T, eta):
    G = g(X)
    Y = W @ G
    for _ in range(T):
        X, old = W @ (X - eta * Y), G
        G = g(X)
        Y = W @ (Y + G - old)
    return X


def momentum_tracking(X, W, g, T, eta, beta):
    G = g(X)
    u = c = (G - G.mean(0)) / (1 - beta)
    for _ in range(T):
        u = beta * u + g(X)
        X = W @ X - eta * (u - c)
        c = W @ (c - u) + u
    return X


def biased_dmt(X, W, g, T, eta, lam):
    M = V = g(X)
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
