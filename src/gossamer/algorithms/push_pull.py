r"""Push-Pull gradient tracking.

$$ X^{t+1} = R ( X^t - \eta Y^t ), \qquad Y^{t+1} = C Y^t + g^{t+1} - g^t, \qquad Y^0 = g^0 $$

On a directed graph models are pulled by row-stochastic weights, which agree, and trackers are pushed by
column-stochastic ones, which lose nothing: $\bar y^t = \bar g^t$ for every $t$. With doubly stochastic weights it is
DSGT. Two vectors to each neighbour a round, in one message. With `warm` $= k$ the tracker starts from $C^k g^0$, which
keeps the sum; an all-reduce is not offered, since $C$ takes trackers to the shares of the sum that the network gives
each agent, and not to the mean.

Reference: S. Pu, W. Shi, J. Xu and A. Nedić, "Push-pull gradient methods for distributed optimization in networks",
2021, arXiv 1810.06653.
"""

from gossamer.core import Agent, Array, PushedWarm, State, StepSize, rule


@rule("push-pull", needs="row+column")
class PushPull:
    """Push-Pull: gradient tracking for directed graphs."""

    eta: StepSize
    warm: PushedWarm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, y=agent.average(g, self.warm, over="C"), g=g)

    def step(self, s: State, agent: Agent) -> State:
        x, cy = agent.gossip(s.x - self.eta * s.y, s.y, over="RC")
        g = agent.gradient(x)
        return State(x=x, y=cy + g - s.g, g=g)

    def restart(self, s: State) -> State:
        return State(x=s.x, y=s.g, g=s.g)

    def tracker(self, s: State) -> Array:
        return s.y
