"""Biased-DMT against D-PSGD on the paper's problem: a9a sorted by label, a ring of 20 agents, biased gradients."""

import gossamer as gs

problem = gs.problems.logistic("a9a", agents=20, split="by-label", alpha=0.01)
network = gs.networks.ring(20)
oracle = gs.oracles.minibatch(64) | gs.oracles.additive_bias(mean=0.002, std=0.005, redraw=False)
result = gs.simulate(
    [gs.BiasedDMT(eta=0.1, lam=0.05), gs.DPSGD(eta=0.02)],
    problem, network, oracle, steps=3000, every=100, seeds=3,
)  # fmt: skip
print(result.summary())
