"""Gossamer: decentralized stochastic optimization when gradients are biased."""

from importlib.metadata import version

import lazy_loader

__version__ = version("gossamer")

# what a name needs is imported when it is first used: JAX comes in with the simulator
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
