"""The names of the experiments, and the spec file of each, which stands beside this one."""

from enum import StrEnum
from importlib.resources import files

from gossamer.core import InputError, nearest


class Experiment(StrEnum):
    """The experiments, in the order in which they run."""

    fig1 = "fig1"
    descent = "descent"
    horizon = "horizon"
    sensitivity = "sensitivity"
    fig2 = "fig2"
    heterogeneity = "heterogeneity"
    speedup = "speedup"
    corollary = "corollary"
    topology = "topology"
    start = "start"


EXPERIMENTS = tuple(experiment.value for experiment in Experiment)
"""The names of all experiments."""

QUICK = (Experiment.fig1.value, Experiment.fig2.value)
"""The names of those in a quick reproduction, which also has fewer methods, settings and replicates."""


def text_of(name: str) -> str:
    """The spec of an experiment, as TOML to copy and change."""
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; {nearest(name, EXPERIMENTS)}")
    return (files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
