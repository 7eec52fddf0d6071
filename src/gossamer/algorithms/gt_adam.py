r"""GT-Adam, gradient tracking with Adam's steps.

$$ m^{t+1} = \beta_1 m^t + (1-\beta_1) S^t, \qquad
   u^{t+1} = \min \bigl( \beta_2 u^t + (1-\beta_2) (S^t)^2,\; G \bigr), $$

$$ X^{t+1} = W X^t - \eta \frac{m^{t+1}}{\sqrt{u^{t+1} + \epsilon}}, \qquad
   S^{t+1} = W S^t + g^{t+1} - g^t, \qquad S^0 = g^0, \quad m^0 = u^0 = 0 $$

Each agent feeds Adam with its tracker $S$ of the mean gradient in place of its own gradient, coordinate by coordinate;
moments are not corrected for their start, and the second is bounded by $G$ (`cap`), which the analysis needs and which
the authors' code sets to $10^6$; that starts from $S^0 = g^0 = 0$, which is one round of mixing alone before ours. With
$\beta_1 = 0$ and a bound far below $\epsilon$ it is GNSD with step $\eta / \sqrt\epsilon$. Two vectors to each
neighbour a round, in one message.

Reference: G. Carnevale, F. Farina, I. Notarnicola and G. Notarstefano, "GTAdam: gradient tracking with adaptive
momentum for distributed online optimization", 2023, arXiv 2009.01745.
"""

import math
from typing import Annotated

from gossamer.core import Agent, Array, Decay, Range, State, StepSize, Value, Warm, rule


@rule("gt-adam")
class GTAdam:
    """GT-Adam: gradient tracking with Adam's steps."""

    eta: StepSize
    beta1: Decay
    beta2: Decay = 0.999
    eps: Annotated[Value, Range(0, math.inf, True, True, grid=(1e-8, 1e-4))] = 1e-8
    cap: Annotated[Value, Range(0, math.inf, True, True, grid=(1e6, 1.0))] = 1e6
    warm: Warm = 0

    def init(self, x: Array, agent: Agent) -> State:
        g = agent.gradient(x)
        return State(x=x, m=0 * x, u=0 * x, s=agent.average(g, self.warm), g=g)

    def step(self, s: State, agent: Agent) -> State:
        wx, ws = agent.gossip(s.x, s.s)
        m = self.beta1 * s.m + (1 - self.beta1) * s.s
        u = self.beta2 * s.u + (1 - self.beta2) * s.s**2
        cap = 0 * u + self.cap
        u = u * (u <= cap) + cap * (cap < u)
        x = wx - self.eta * m / (u + self.eps) ** 0.5
        g = agent.gradient(x)
        return State(x=x, m=m, u=u, s=ws + g - s.g, g=g)

    def restart(self, s: State) -> State:
        return State(x=s.x, m=s.m, u=s.u, s=s.g, g=s.g)

    def tracker(self, s: State) -> Array:
        return s.s
