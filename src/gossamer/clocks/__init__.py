"""Clocks: how long agents compute and messages travel, and the seconds of a run that follow."""

from gossamer.clocks.clock import (
    COMPUTE,
    Clock,
    Compute,
    clock,
    clock_of,
    constant,
    log_normal,
    shifted_exponential,
    trace,
)
from gossamer.clocks.links import LINKS, REGIONS, Links, matrix, regions, uniform

__all__ = [
    "COMPUTE",
    "LINKS",
    "REGIONS",
    "Clock",
    "Compute",
    "Links",
    "clock",
    "clock_of",
    "constant",
    "log_normal",
    "matrix",
    "regions",
    "shifted_exponential",
    "trace",
    "uniform",
]
