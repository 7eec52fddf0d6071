"""Ranks with an optimizer inside, with weight decay, and their plain loops in NumPy."""

from functools import partial
from typing import Any

import numpy as np

import gossamer as gs
from gossamer import networks
from gossamer.core import State
from tests.torch_engine import quadratics

ROUNDS = 8
DECAY = (0.3, 0.05)
"""Of the two parameter groups, of 2 and of 4 numbers."""
RULES = {
    "biased-dmt": gs.BiasedDMT(eta=0.05, lam=0.3),
    "d-psgd": gs.DPSGD(eta=0.05),
    "sgp": gs.SGP(eta=0.05, beta=0.5),
    "d2": gs.D2(eta=0.05),
    "local-biased-dmt": gs.LocalBiasedDMT(eta=0.05, lam=0.3, inner=0.02, local=4),
}


def network_of(name):
    return networks.ring(4, weights="lazy") if name == "d2" else networks.ring(4)


def trained(rank, size):
    """Where each case ends on this rank."""
    import torch

    from gossamer.torch import Decentralized

    found = {}
    outer = gs.BiasedDMT(eta=0.7, lam=0.3)
    for overlap in (None, False):
        for name, rule in RULES.items():
            halves, loss = quadratics.model(rank, size)
            groups = [{"params": half, "weight_decay": w} for half, w in zip(halves, DECAY, strict=True)]
            optimizer = Decentralized(groups, rule, network_of(name), timeout=30, overlap=overlap)
            quadratics.train(optimizer, loss, ROUNDS * getattr(rule, "local", 1))
            found[f"decay, {name}, {overlap}"] = optimizer._rounds.buffers["x"].clone().numpy()
        for steps in (1, 3):
            halves, loss = quadratics.model(rank, size)
            inner = partial(torch.optim.SGD, lr=0.02)
            optimizer = Decentralized(
                halves, outer, "ring", inner=inner, local_steps=steps, timeout=30, overlap=overlap
            )
            # saved in the middle of a round, and gone on with by another optimizer
            quadratics.train(optimizer, loss, 3 * steps - 1)
            saved = optimizer.state_dict()
            halves, loss = quadratics.model(rank, size)
            optimizer = Decentralized(
                halves, outer, "ring", inner=inner, local_steps=steps, timeout=30, overlap=overlap
            )
            optimizer.load_state_dict(saved)
            quadratics.train(optimizer, loss, (ROUNDS - 3) * steps + 1)
            found[f"inner, {steps}, {overlap}"] = quadratics.joined(halves)
    halves, loss = quadratics.model(rank, size)
    adamw = partial(torch.optim.AdamW, lr=0.03, weight_decay=0.1)
    optimizer = Decentralized(halves, gs.DPSGD(eta=1.0), "ring", inner=adamw, timeout=30)
    quadratics.train(optimizer, loss, ROUNDS)
    found["adamw"] = quadratics.joined(halves)
    halves, loss = quadratics.model(rank, size)
    optimizer = Decentralized(halves, gs.DAdamW(eta=0.03, decay=0.1), "ring", timeout=30)
    quadratics.train(optimizer, loss, ROUNDS)
    found["d-adamw"] = quadratics.joined(halves)
    return found


class Shown(quadratics.Stacked):
    """All agents, whose gradients at a model that has shrunk are those at the model before."""

    def __init__(self, network, t, shrunk=None, whole=None):
        super().__init__(4, network, t)
        self.shrunk, self.whole = shrunk, whole

    def gradient(self, *points):
        return super().gradient(*(self.whole if point is self.shrunk else point for point in points))


def decayed(name, asks):
    """The states of a plain loop whose model shrinks by 1 − ηω at the start of every round.

    After as many answers as an optimizer got: a rule that asks at its start (init) is a round behind.
    """
    rule, network, omega = RULES[name], network_of(name), np.repeat(DECAY, [2, 4])
    state = rule.init(np.tile(quadratics.problem(4)[3], (4, 1)), Shown(network, 0))
    for t in range(ROUNDS - asks):
        if name == "d2":  # takes differences of models: the decay is in the gradient
            agent: Any = Shown(network, t)
            agent.gradient = lambda x: quadratics.Stacked(4, network, 0).gradient(x) + omega * x
            state = rule.step(state, agent)
            continue
        shrunk = {key: (1 - rule.eta * omega) * state[key] for key in rule.decays}
        agent = Shown(network, t, shrunk.get("x"), state.x)
        state = rule.step(State(**dict(state) | shrunk), agent)
    return state.x


def displaced(steps, inner=0.02, eta=0.7, lam=0.3):
    """Biased-DMT whose gradients are displacements by local steps of SGD."""
    agents, W = quadratics.Stacked(4, None, 0), networks.ring(4).mixing

    def moved(x):
        y = x
        for _ in range(steps):
            y = y - inner * agents.gradient(y)
        return x - y

    x = np.tile(quadratics.problem(4)[3], (4, 1))
    m = v = moved(x)
    for _ in range(ROUNDS - 1):
        x = W @ x - eta * v
        new = (1 - lam) * m + lam * moved(x)
        v, m = W @ v + new - m, new
    return W @ x - eta * v  # where the next displacement is asked for


def adamw_and_averages(average_first, lr=0.03, decay=0.1):
    """torch's AdamW of each agent in turn, and averages with neighbours: of the models before, or then steps."""
    import torch

    A, b, E, start = (torch.from_numpy(a) for a in quadratics.problem(4))
    W = torch.from_numpy(networks.ring(4).mixing)
    points = [torch.nn.Parameter(start.clone()) for _ in range(4)]
    optimizers = [torch.optim.AdamW([p], lr=lr, weight_decay=decay) for p in points]
    for _ in range(ROUNDS):
        before = torch.stack([p.detach().clone() for p in points])
        for k, (p, optimizer) in enumerate(zip(points, optimizers, strict=True)):
            p.grad = A[k] @ (before[k] - b[k]) + E[k]
            with torch.no_grad():
                p.copy_((W @ before)[k] if average_first else before[k])
            optimizer.step()
        if not average_first:  # Wx − (x − y)
            after = torch.stack([p.detach().clone() for p in points])
            with torch.no_grad():
                for k, p in enumerate(points):
                    p.copy_((W @ before)[k] - before[k] + after[k])
    return torch.stack([p.detach() for p in points]).numpy()
