"""Gossamer: decentralized stochastic optimization when gradients are biased."""

from importlib.metadata import version

from gossamer import algorithms, data, networks, oracles, problems
from gossamer.algorithms import (
    DPSGD,
    DPSGDATC,
    DSGT,
    GNSD,
    GTDSGD,
    BiasedDMT,
    BiasedDSGD,
    CentralizedMomentum,
    CentralizedSGD,
    DSGDm,
    DSGDmGossip,
    MomentumTracking,
)
from gossamer.core import Agent, Array, Decay, InputError, State, StepSize, Weight, rule
from gossamer.engines import simulate
from gossamer.results import Result
from gossamer.tuning import tune

__version__ = version("gossamer")

__all__ = [
    "DPSGD",
    "DPSGDATC",
    "DSGT",
    "GNSD",
    "GTDSGD",
    "Agent",
    "Array",
    "BiasedDMT",
    "BiasedDSGD",
    "CentralizedMomentum",
    "CentralizedSGD",
    "DSGDm",
    "DSGDmGossip",
    "Decay",
    "InputError",
    "MomentumTracking",
    "Result",
    "State",
    "StepSize",
    "Weight",
    "algorithms",
    "data",
    "networks",
    "oracles",
    "problems",
    "rule",
    "simulate",
    "tune",
]
