"""Gossamer: decentralized stochastic optimization when gradients are biased."""

from typing import Any

import lazy_loader

# what a name needs is imported when it is first used: JAX comes in with the simulator
_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # which costs more than all else that is imported here

        return version("gossamer")
    return _public(name)
