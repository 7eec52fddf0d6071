r"""DecentLaM, decentralized momentum for large-batch training.

$$ \hat g^t = \tfrac1\eta \bigl( X^t - W ( X^t - \eta g^t ) \bigr), \qquad
   M^{t+1} = \beta M^t + \hat g^t, \qquad X^{t+1} = X^t - \eta M^{t+1}, \qquad M^0 = 0 $$

The momentum is that of a penalised problem whose gradient is $\hat g$, so it does not amplify what heterogeneity costs
D-PSGD: it settles where D-PSGD (adapt then combine) does with the same step. One vector to each neighbour a round.

Reference: K. Yuan et al., "DecentLaM: decentralized momentum SGD for large-batch deep training", ICCV 2021, arXiv
2104.11981.
"""

from gossamer.core import Agent, Array, Decay, State, StepSize, rule


@rule("decentlam")
class DecentLaM:
    """DecentLaM: momentum that does not amplify heterogeneity."""

    eta: StepSize
    beta: Decay

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, m=0 * x)

    def step(self, s: State, agent: Agent) -> State:
        g = (s.x - agent.gossip(s.x - self.eta * agent.gradient(s.x))) / self.eta
        m = self.beta * s.m + g
        return State(x=s.x - self.eta * m, m=m)

    def restart(self, s: State) -> State:
        return s
