"""The names of the experiments, and the spec file of each, which stands beside this one."""

from enum import StrEnum, auto
from importlib.resources import files

from gossamer.core import InputError, nearest


class ExperimentName(StrEnum):  # typer takes a list of an enum, but none of a Literal
    """The names of the experiments, in the order in which they run."""

    fig1 = auto()
    descent = auto()
    horizon = auto()
    sensitivity = auto()
    fig2 = auto()
    heterogeneity = auto()
    speedup = auto()
    corollary = auto()
    topology = auto()
    start = auto()


EXPERIMENTS = tuple(name.value for name in ExperimentName)
"""The names of all experiments."""

QUICK = ("horizon", "sensitivity", "fig2")
"""The experiments of a quick reproduction, of which it runs what decides their headline claims."""


def text_of(name: str) -> str:
    """Return the spec of an experiment, as TOML to copy and change."""
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; {nearest(name, EXPERIMENTS)}")
    return (files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
