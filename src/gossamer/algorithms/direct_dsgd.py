r"""D-PSGD with directly compressed messages.

$$ X^{t+1/2} = X^t - \eta g^t, \qquad X^{t+1} = X^{t+1/2} + \gamma (W - I) C(X^{t+1/2}) $$

The baseline of methods with error feedback. The mean of the agents moves by their gradients alone, but the errors of
compression are as large as the models and never fade, so that agents stay apart. With no compression and $\gamma = 1$
it is D-PSGD (adapt then combine). One compressed vector to each neighbour a round.

Reference: A. Koloskova, S. Stich and M. Jaggi, "Decentralized stochastic optimization and gossip algorithms with
compressed communication", ICML 2019, arXiv 1902.00340, where gossip of this kind is a baseline.
"""

from gossamer.core import Agent, Array, Compressor, Mixing, State, StepSize, rule


@rule("direct-dsgd")
class DirectDSGD:
    """Direct DSGD: D-PSGD with directly compressed messages."""

    eta: StepSize
    gamma: Mixing
    compressor: Compressor

    def init(self, x: Array, agent: Agent) -> State:
        return State(x=x)

    def step(self, s: State, agent: Agent) -> State:
        x = s.x - self.eta * agent.gradient(s.x)
        q, wq = agent.gossip_compressed(x, by=self.compressor)
        return State(x=x + self.gamma * (wq - q))
