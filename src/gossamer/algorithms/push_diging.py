r"""Push-DIGing, gradient tracking by push-sum.

$$ U^{t+1} = C ( U^t - \eta Y^t ), \qquad w^{t+1} = C w^t, \qquad X^{t+1} = U^{t+1} / w^{t+1}, \qquad
   Y^{t+1} = C Y^t + g(X^{t+1}) - g(X^t), \qquad Y^0 = g^0, \quad w^0 = \mathbf 1 $$

Directed graphs that may change, with column-stochastic weights alone: an agent needs to know only to how many it sends.
With doubly stochastic weights it is DSGT. Two vectors and one number to each neighbour a round, in one message. With
`warm` $= k$ the tracker starts from $C^k g^0$, which keeps the sum; an all-reduce is not offered, since $C$ takes
trackers to the shares of the sum that the network gives each agent, and not to the mean.

Reference: A. Nedić, A. Olshevsky and W. Shi, "Achieving geometric convergence for distributed optimization over
time-varying graphs", 2017, arXiv 1607.03218.
"""

from gossamer.core import Agent, Array, PushedWarm, State, StepSize, rule


@rule("push-diging", needs="column", decays=("u",))
class PushDIGing:
    """Push-DIGing: gradient tracking by push-sum."""

    eta: StepSize
    warm: PushedWarm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, u=x, w=agent.ones(), y=agent.average(g, self.warm, over="C"), g=g)

    def step(self, s: State, agent: Agent) -> State:
        u, w, cy = agent.gossip(s.u - self.eta * s.y, s.w, s.y, over="C")
        x = u / w
        g = agent.gradient(x)
        return State(x=x, u=u, w=w, y=cy + g - s.g, g=g)

    def restart(self, s: State) -> State:
        return State(x=s.x, u=s.x, w=0 * s.w + 1, y=s.g, g=s.g)

    def tracker(self, s: State) -> Array:
        return s.y
