"""The same runs in the simulator and on PyTorch processes: quadratics with a constant bias, 25 rounds."""

from pathlib import Path

import jax
import networkx as nx
import numpy as np

import gossamer as gs
from gossamer import aggregators, compressors, networks
from gossamer.core import State
from tests import further_reference as reference

STEPS = 25


def problem(agents):
    """Hessians, centres and biases of all agents, and the start."""
    rng = np.random.default_rng(agents)
    roots = rng.normal(size=(agents, 6, 6))
    A = roots @ roots.transpose(0, 2, 1) / 6 + 0.2 * np.eye(6)
    return A, rng.normal(size=(agents, 6)), 0.3 * rng.normal(size=(agents, 6)), rng.normal(size=6)


def irregular(agents):
    """Degrees from 1 to 4."""
    edges = [(0, 1), (0, 2), (1, 2), (2, 3)] + [(0, 4), (3, 5), (5, 6), (6, 4), (6, 7)] * (agents == 8)
    return nx.Graph(edges)


def one_way(agents):
    """A directed ring with a few links more."""
    edges = [(i, (i + 1) % agents) for i in range(agents)] + [(0, 2), (2, 0), (1, agents - 1)]
    return nx.DiGraph(edges)


def networks_of(agents):
    """A ring, a graph and a directed graph; the first two held alike, so that the simulator compiles once for both."""
    ring, graph = networks.ring(agents), networks.from_graph(irregular(agents))
    alike = [networks.from_matrix(network.mixing, name="doubly") for network in (ring, graph)]
    lazy = [networks.from_matrix((np.eye(agents) + network.mixing) / 2, name="doubly") for network in (ring, graph)]
    return alike, lazy, [networks.make("directed-ring", agents), networks.directed(one_way(agents))]


def simulated_cases(agents):
    """By name, a rule and a network: those whose iterates the simulator gives."""
    alike, lazy, directed = networks_of(agents)
    dmt, top = gs.BiasedDMT(eta=0.05, lam=0.3), compressors.top_k(2)
    made = {}
    for where, net, halfway, one in zip(("ring", "graph"), alike, lazy, directed, strict=True):
        made |= {
            f"biased-dmt, {where}": (dmt, net),
            f"scheduled, {where}": (gs.BiasedDMT(eta=lambda t: 0.1 / (1 + t), lam=0.3), net),
            f"both scheduled, {where}": (gs.BiasedDMT(eta=lambda t: 0.1 / (1 + t), lam=lambda t: 1 / (1 + t)), net),
            f"d-psgd, {where}": (gs.DPSGD(eta=0.05), net),
            f"gt-dsgd, {where}": (gs.GTDSGD(eta=0.05), net),
            f"d2, {where}": (gs.D2(eta=0.05), halfway),
            f"momentum-tracking, {where}": (gs.MomentumTracking(eta=0.02, beta=0.7), net),
            f"choco-sgd, {where}": (gs.ChocoSGD(eta=0.05, gamma=0.4, compressor=top), net),
            f"push-pull-dmt, {where}": (gs.PushPullDMT(eta=0.05, lam=0.3), one),
        }
    if agents == 4:  # with the simulator's draws
        made["rand-k"] = gs.ChocoSGD(eta=0.05, gamma=0.3, compressor=compressors.rand_k(2, scaled=False)), alike[0]
        made["four local steps"] = gs.LocalBiasedDMT(eta=0.05, lam=0.3, inner=0.02, local=4), alike[0]
        made["qsgd"] = gs.BEER(eta=0.02, gamma=0.2, compressor=compressors.qsgd(7)), alike[0]
    return made


def plain_cases(agents):
    """Those that a plain loop checks: networks that change and fail, two points a sample, more compressors."""
    ring, (_, graph), (one, two) = networks.ring(agents), networks_of(agents)[0], networks_of(agents)[2]
    dmt = gs.BiasedDMT(eta=0.05, lam=0.3)

    def choco(compressor):
        return gs.ChocoSGD(eta=0.05, gamma=0.3, compressor=compressor), graph

    with_eight = {
        "one-peer": (dmt, networks.make("one-peer-exponential", agents)),
        "one-peer, d-psgd": (gs.DPSGD(eta=0.05), networks.make("one-peer-exponential", agents)),
        "asleep, by timetable": (dmt, networks.availability(ring, Path(__file__).with_name("online.csv"))),
        "bursts": (dmt, networks.gilbert_elliott(ring, 0.3, 0.4, 0.1, 0.9, seed=3)),
        "asleep": (dmt, networks.failing(ring, links=0.3, agents=0.2, seed=3)),
    }
    if agents == 8:
        return with_eight
    return with_eight | {
        "matching": (gs.DSGT(eta=0.05), networks.make("random-matching", agents)),
        "links down, ahead": (dmt, networks.failing(graph, links=0.3, seed=4)),
        "links down": (gs.GTDSGD(eta=0.05), networks.failing(graph, links=0.3, seed=2)),
        "asleep, directed": (gs.SGP(eta=0.05, beta=0.0), networks.failing(two, links=0.2, agents=0.2, seed=1)),
        "sgp": (gs.SGP(eta=0.05, beta=0.5), one),
        "push-diging": (gs.PushDIGing(eta=0.05), two),
        "trimmed": (gs.RobustDSGD(eta=0.05, lam=0.3, aggregator=aggregators.trimmed_mean(1)), ring),
        "own radius": (gs.RobustDSGD(eta=0.05, lam=0.3, aggregator=aggregators.clipped()), graph),
        "median, every": (gs.RobustDSGD(eta=0.05, lam=0.3, aggregator=aggregators.median()), networks.every(graph, 3)),
        "motef": (gs.MoTEF(eta=0.05, lam=0.3, gamma=0.3, compressor=compressors.top_k(2)), graph),
        "sign": choco(compressors.scaled_sign()),
        "levels": choco(compressors.round_linf(200)),
        "two bits": choco(compressors.round_linf(1)),
        "step": choco(compressors.round_to(0.01)),
        "two points, gt-hsgd": (gs.GTHSGD(eta=0.05, a=0.3), ring),
        "two points, stem": (gs.STEM(eta=0.05, a=0.3), ring),
        "centralized": (gs.CentralizedMomentum(eta=0.05, lam=0.3), ring),
    }


def simulated(agents):
    """Where the simulator ends, [agents, d]."""
    A, b, E, start = problem(agents)
    found = {}
    for name, (rule, network) in simulated_cases(agents).items():
        oracle = gs.oracles.exact() | gs.oracles.additive_bias(vectors=E)
        result = gs.simulate(
            rule, gs.problems.quadratic(A, b), network, oracle,
            steps=STEPS, start=start, dtype="float64", seeds=[5], progress=False,
        )  # fmt: skip
        found[name] = result.iterates[rule.name][0]
    return found


class Stacked:
    """All agents in one round, in NumPy; only compressors that draw nothing."""

    def __init__(self, agents, network, t):
        self.problem, self.network, self.t = problem(agents), network, t

    def gradient(self, *points):
        A, b, E, _ = self.problem
        return like(points, [np.einsum("nde,ne->nd", A, x - b) + E for x in points])

    full_gradient = gradient

    def gossip(self, *arrays, over="W"):
        letters = over if over == "RC" else over * len(arrays)
        return like(arrays, [self.network.matrix(self.t, by) @ a for a, by in zip(arrays, letters, strict=True)])

    def gossip_compressed(self, *arrays, by):
        with jax.enable_x64(True):
            shrunk = [np.stack([np.asarray(by.compress(None, row)) for row in a]) for a in arrays]
        return like(arrays, [(q, self.network.matrix(self.t) @ q) for q in shrunk])

    def gossip_copies(self, copy, apart, a, by=None):
        q = a if by is None else self.gossip_compressed(a, by=by)[0]
        return q, copy + q - self.network.matrix(self.t) @ (copy + q)

    def gossip_robust(self, *arrays, by):
        return like(arrays, [reference.combined(a, self.network.matrix(self.t).toarray(), by) for a in arrays])

    def gossip_sum(self, *arrays):
        linked = (self.network.matrix(self.t).toarray() != 0) & ~np.eye(self.network.agents, dtype=bool)
        return like(arrays, [linked @ a for a in arrays])

    def mean(self, *arrays):
        return like(arrays, [np.broadcast_to(a.mean(0), a.shape) for a in arrays])

    def average(self, a, warm, over="W"):
        if warm == "mean":
            return self.mean(a)
        for t in range(warm):
            a = self.network.matrix(t, over) @ a
        return a

    def ones(self):
        return np.ones((self.network.agents, 1))

    def place(self):
        return np.eye(self.network.agents)

    def norm(self, a):
        return np.linalg.norm(a, axis=1, keepdims=True)

    def repeat(self, times, step, *arrays):
        for _ in range(times):
            made = step(*arrays)
            arrays = made if isinstance(made, tuple) else (made,)
        return like(arrays, arrays)


def like(given, made):
    return made[0] if len(given) == 1 else tuple(made)


def looped(agents):
    """Where a plain loop ends, [agents, d]."""
    found = {}
    for name, (rule, network) in plain_cases(agents).items():
        state = rule.init(np.tile(problem(agents)[3], (agents, 1)), Stacked(agents, network, 0))
        for t in range(STEPS):
            new = rule.step(state, Stacked(agents, network, t))
            awake = None if rule.needs == "nothing" else network.awake(t)
            if awake is not None:
                new = State(**{key: np.where(np.asarray(awake)[:, None], new[key], state[key]) for key in new})
            state = new
        found[name] = state.x
    return found


def trained(rank, agents):
    """Where every case ends on this rank; where messages can overlap gradients, also without."""
    from gossamer.torch import Decentralized

    found = {}
    for name, (rule, network) in (simulated_cases(agents) | plain_cases(agents)).items():
        for overlap in (None, False):
            halves, loss = model(rank, agents)
            optimizer = Decentralized(halves, rule, network, timeout=30, overlap=overlap, seed=5, draws="simulator")
            train(optimizer, loss, 1 + (STEPS - 1) * getattr(rule, "local", 1), twice="two points" in name)
            found[name + ", in phase" * (overlap is False)] = ended(optimizer, halves, loss, name)
            if not optimizer.overlap:
                break
    return found


def model(rank, agents):
    """The start in two parameters, and this agent's loss with its bias."""
    import torch

    A, b, E, start = (torch.from_numpy(a) for a in problem(agents))
    halves = [torch.nn.Parameter(part.clone().view(1, -1)) for part in start.split([2, 4])]

    def loss():
        x = torch.cat([half.view(-1) for half in halves])
        return (x - b[rank]) @ A[rank] @ (x - b[rank]) / 2 + E[rank] @ x

    return halves, loss


def train(optimizer, loss, steps, twice=False):
    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    for _ in range(steps):
        if twice:
            optimizer.step(closure, full=closure)
        else:
            closure()
            optimizer.step()


def ended(optimizer, halves, loss, name):
    """The parameters; where agents sleep, the state, because one that sleeps asks for gradients in vain."""
    if "asleep" in name:
        train(optimizer, loss, "m" in optimizer._rounds.buffers and optimizer.rule.name == "biased-dmt")
        return optimizer._rounds.buffers["x"].clone().numpy()
    return joined(halves)


def joined(halves):
    """The parameters as one array."""
    import torch

    return torch.cat([half.detach().view(-1) for half in halves]).numpy()
