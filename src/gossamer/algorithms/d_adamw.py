r"""Decentralized AdamW (D-AdamW): AdamW with plain gossip of the models.

$$ m^{t+1} = \beta_1 m^t + (1-\beta_1)\, g(X^t), \qquad u^{t+1} = \beta_2 u^t + (1-\beta_2)\, g(X^t)^2, $$

$$ X^{t+1} = (1 - \eta\omega)\, W X^t
   - \eta\, \frac{m^{t+1} / (1-\beta_1^{t+1})}{\sqrt{u^{t+1} / (1-\beta_2^{t+1})} + \epsilon},
   \qquad m^0 = u^0 = 0 $$

A training script does this if it averages its model with its neighbours' and then calls AdamW; $\omega$ is `decay`.
The moments stay with the agent and are made of its own gradients, so that on heterogeneous data its steps point to the
optimum of its own loss, and their sizes differ between agents: like D-PSGD it settles elsewhere than at the optimum of
$F$. GT-Adam tracks the mean gradient first. One vector to each neighbour a round.

Reference: I. Loshchilov and F. Hutter, "Decoupled weight decay regularization", 2019, arXiv 1711.05101, for AdamW;
X. Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017, arXiv 1705.09056, for the
gossip.
"""

import math
from typing import Annotated

from gossamer.core import Agent, Array, Decay, PostingAgent, Range, State, StepSize, Value, rule


@rule("d-adamw")
class DAdamW:
    """D-AdamW: AdamW with plain gossip."""

    eta: StepSize
    beta1: Decay = 0.9
    beta2: Decay = 0.999
    eps: Annotated[Value, Range(0, math.inf, True, True, grid=(1e-8, 1e-4))] = 1e-8
    decay: Annotated[Value, Range(0, math.inf, False, True, grid=(0.0, 0.01, 0.1))] = 0.01

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x, m=0 * x, u=0 * x, p1=agent.ones(), p2=agent.ones())

    def step(self, s: State, agent: Agent) -> State:
        return self._apply_adam(s, agent.gossip(s.x), agent.gradient(s.x))

    def ahead(self, s: State, agent: PostingAgent) -> State:
        """Do `step` with a message that travels while the gradient is computed."""
        arrived, g = agent.post(s.x), agent.gradient(s.x)
        return self._apply_adam(s, arrived(), g)

    def _apply_adam(self, s: State, wx: Array, g: Array) -> State:
        m = self.beta1 * s.m + (1 - self.beta1) * g
        u = self.beta2 * s.u + (1 - self.beta2) * g**2
        p1, p2 = self.beta1 * s.p1, self.beta2 * s.p2  # β₁ᵗ⁺¹ and β₂ᵗ⁺¹
        size = (u / (1 - p2)) ** 0.5 + self.eps
        x = (1 - self.eta * self.decay) * wx - self.eta * (m / (1 - p1)) / size
        return State(x=x, m=m, u=u, p1=p1, p2=p2)

    def restart(self, s: State) -> State:
        return s
