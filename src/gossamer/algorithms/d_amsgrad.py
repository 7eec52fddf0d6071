r"""Decentralized AMSGrad.

$$ m^{t+1} = \beta_1 m^t + (1-\beta_1) g^t, \qquad v^{t+1} = \beta_2 v^t + (1-\beta_2) (g^t)^2, \qquad
   \hat v^{t+1} = \max ( \hat v^t, v^{t+1} ), $$

$$ u^{t} = W \tilde u^t, \qquad X^{t+1} = W X^t - \eta \frac{m^{t+1}}{\sqrt{\max(u^t, \epsilon)}}, \qquad
   \tilde u^{t+1} = u^t - \hat v^t + \hat v^{t+1}, \qquad m^0 = 0, \quad v^0 = \hat v^0 = \tilde u^0 = \epsilon $$

Each agent runs AMSGrad on its own gradients, coordinate by coordinate, but all divide by $u$, which tracks the mean of
their second moments: agents that scaled the same coordinate differently need not come to a stationary point of $F$.
Gradients are not tracked, so where losses differ it stalls as D-PSGD does. Among honest agents $\max(u, \epsilon)$ is
$u$, which starts at $\epsilon$ and whose $\hat v$ never falls. Attackers may send a $u$ below 0, which has no root.
While all $(g^t)^2$ stay below $\epsilon$, and with $\beta_1 = 0$, it is D-PSGD with step $\eta / \sqrt\epsilon$. Two
vectors to each neighbour a round, in one message.

Reference: X. Chen, B. Karimi, W. Zhao and P. Li, "On the convergence of decentralized adaptive gradient methods", 2021,
arXiv 2109.03194.
"""

import math
from typing import Annotated

from gossamer.core import Agent, Array, Decay, Range, State, StepSize, Value, rule


@rule("d-amsgrad")
class DAMSGrad:
    """Decentralized AMSGrad."""

    eta: StepSize
    beta1: Decay
    beta2: Decay = 0.99
    eps: Annotated[Value, Range(0, math.inf, True, True, grid=(1e-6, 1e-3))] = 1e-6

    def init(self, x: Array, agent: Agent) -> State:
        eps = 0 * x + self.eps
        return State(x=x, m=0 * x, v=eps, vhat=eps, u=eps)

    def step(self, s: State, agent: Agent) -> State:
        g = agent.gradient(s.x)
        m = self.beta1 * s.m + (1 - self.beta1) * g
        v = self.beta2 * s.v + (1 - self.beta2) * g**2
        vhat = v * (v > s.vhat) + s.vhat * (s.vhat >= v)
        wx, u = agent.gossip(s.x, s.u)
        eps = 0 * vhat + self.eps
        size = u * (u > eps) + eps * (u <= eps)
        return State(x=wx - self.eta * m / size**0.5, m=m, v=v, vhat=vhat, u=u - s.vhat + vhat)

    def restart(self, s: State) -> State:
        return State(x=s.x, m=s.m, v=s.v, vhat=s.vhat, u=s.vhat)
