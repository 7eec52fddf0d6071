"""Engines: what runs a rule."""

from gossamer.engines.simulator import simulate

__all__ = ["simulate"]
