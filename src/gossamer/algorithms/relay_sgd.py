r"""RelaySGD, models that are summed along the links of a tree (RelaySum).

$$ x_i^{t+1/2} = x_i^t - \eta g_i^t, \qquad
   m_{i \to j}^t = x_i^{t+1/2} + \sum_{k \in N_i \setminus j} m_{k \to i}^{t-1}, \qquad
   x_i^{t+1} = \frac1n \Bigl( x_i^{t+1/2} + \sum_{j \in N_i} m_{j \to i}^t \Bigr) $$

On a tree nothing comes back, so that each agent has the model of every other exactly once, only late:

$$ x_i^{t+1} = \frac1n \sum_j x_j^{t + 1/2 - \tau_{ij}}, \qquad \tau_{ij} = \max(0, d_{ij} - 1), $$

with $d_{ij}$ links between them and $x_j^{s+1/2} = x^0$ before the first round. Whatever was sent is in the mean after
as many rounds as the tree is wide; gossip on a path of $n$ agents takes $n^2$. Heterogeneity costs nothing: it settles
only where all models agree and the gradients' mean is zero. Weights play no part, only who is linked to whom.

The authors send each neighbour a sum of its own. Here all neighbours hear the same vector $b_i = x_i^{t+1/2} + r_i$,
and each subtracts what came from itself: with the sums $r_i^t = \sum_j m_{j \to i}^t$ and $c_i^t = \sum_j m_{i \to
j}^t$,

$$ r_i^t = \sum_{j \in N_i} b_j^t - c_i^{t-1}, \qquad c_i^t = \lvert N_i \rvert\, b_i^t - r_i^{t-1}, \qquad
   b_i^t = x_i^{t+1/2} + r_i^{t-1} $$

In float32 these sums keep their rounding, which then acts as a small constant bias on long runs. Where agents start
apart, they start from their mean. One vector to each neighbour a round.

Reference: T. Vogels et al., "RelaySum for decentralized deep learning on heterogeneous data", NeurIPS 2021, arXiv
2110.04175.
"""

from gossamer.core import Agent, Array, State, StepSize, rule


@rule("relay-sgd", tree=True)
class RelaySGD:
    """RelaySGD: models summed along the links of a tree."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        x, n, links = agent.mean(x), agent.place().shape[-1], agent.gossip_sum(agent.ones())
        r = (n - 1) * x
        return State(x=x, r=r, c=links * n * x - r, links=links)

    def step(self, s: State, agent: Agent) -> State:
        n = agent.place().shape[-1]
        x = s.x - self.eta * agent.gradient(s.x)
        b = x + s.r
        r = agent.gossip_sum(b) - s.c
        return State(x=(x + r) / n, r=r, c=s.links * b - s.r, links=s.links)
