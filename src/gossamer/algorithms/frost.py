r"""FROST, gradient tracking with row-stochastic weights alone.

$$ P^{t+1} = R P^t, \qquad X^{t+1} = R X^t - \eta Z^t, \qquad
   z_i^{t+1} = \sum_j r_{ij} z_j^t + \frac{g_i^{t+1}}{p_{ii}^{t+1}} - \frac{g_i^t}{p_{ii}^t}, \qquad
   P^0 = I, \quad Z^0 = g^0 $$

On a directed graph an agent can weigh what it hears without knowing who hears it. Row-stochastic weights agree, but
count some agents more than others: $P^t$ goes to the matrix whose rows are these counts, and each agent divides its
gradient by its own. So $Z$ tracks the sum of all gradients, and $\eta$ is that of other methods divided by $n$: with
doubly stochastic weights, from $P^0 = \frac1n \mathbf 1 \mathbf 1^\top$, it is GNSD with step $n \eta$. It needs one
$R$ without losses. Two vectors and $n$ numbers to each neighbour a round, in one message. The authors also allow each
agent a step of its own.

Reference: R. Xin, C. Xi and U. Khan, "FROST – fast row-stochastic optimization with uncoordinated step-sizes", EURASIP
Journal on Advances in Signal Processing, 2019, doi 10.1186/s13634-018-0596-y.
"""

from gossamer.core import Agent, Array, State, StepSize, rule


@rule("frost", needs="row", static=True)
class FROST:
    """FROST: gradient tracking with row-stochastic weights."""

    eta: StepSize

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, z=g, p=agent.place(), g=g)

    def step(self, s: State, agent: Agent) -> State:
        wx, wz, p = agent.gossip(s.x, s.z, s.p, over="R")
        x = wx - self.eta * s.z
        g = agent.gradient(x) / agent.norm(p * agent.place())
        return State(x=x, z=wz + g - s.g, p=p, g=g)
