"""An algorithm, an oracle, a network and a metric of one's own, for examples/own-parts.toml."""

import jax.numpy as jnp
import networkx as nx

import gossamer as gs


@gs.rule("tracked-heavy-ball")
class TrackedHeavyBall:
    """Gradient tracking along directions that keep a share of the last one, with several exchanges a round."""

    eta: gs.StepSize
    kept: gs.Decay
    exchanges: gs.Count = 2

    def init(self, x, agent):
        g = agent.gradient(x)
        return gs.State(x=x, v=g, g=g, d=0 * g)

    def step(self, s, agent):
        d = self.kept * s.d + (1 - self.kept) * s.v
        x, v = agent.gossip(s.x - self.eta * d, s.v)
        for _ in range(self.exchanges - 1):
            x = agent.gossip(x)
        g = agent.gradient(x)
        return gs.State(x=x, v=v + g - s.g, g=g, d=d)


@gs.oracles.register("deaf")
def deaf(below: float = 0.1):
    """Entries of a gradient that are smaller than this share of its largest read zero."""
    return gs.oracles.custom(lambda g, x, site: jnp.where(jnp.abs(g) < below * jnp.abs(g).max(), 0, g))


@gs.networks.register("barbell")
def barbell(agents: int):
    """Two cliques that one link, or one agent, joins."""
    return gs.networks.from_graph(nx.barbell_graph(agents // 2, agents % 2))


@gs.metric("farthest", text="farthest agent, max ‖xᵢ − x̄‖²", latex=r"\max_i \|x_i - \bar x\|^2", log=True)
def farthest(run):
    """The squared distance from the mean of the agent that is farthest from it."""
    return ((run.x - run.mean) ** 2).sum(1).max()
