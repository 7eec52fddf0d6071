"""Who is honest: what is measured is measured on them alone."""

import numpy as np

from gossamer.core import InputError
from gossamer.networks import Network
from gossamer.oracles import Oracle
from gossamer.problems import Problem


def among_honest(problem: Problem, network: Network, oracle: Oracle) -> Problem:
    """The problem with F as the mean over the honest agents, where some attack, by messages or by gradients."""
    attackers = oracle.attackers(problem.agents) | {*(network.attack.attackers if network.attack else ())}
    honest = [agent for agent in range(problem.agents) if agent not in attackers]
    if not honest:
        raise InputError("the attackers by messages and those by gradients are all agents: leave some of them honest.")
    return problem.among(np.array(honest)) if attackers else problem
