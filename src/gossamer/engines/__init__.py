"""The compiled simulator."""

from gossamer.engines.simulator import simulate

__all__ = ["simulate"]
