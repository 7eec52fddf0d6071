"""Modules that are imported with their first use.

`jax` and `jnp` are for rooms that PyTorch needs as well: their compressors and aggregators compute by JAX only in the
simulator, and `import gossamer.torch` shall not take the time to import JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    from jax import Array

__all__ = ["Array", "Lazy", "jax", "jnp"]


class Lazy:
    """A stand-in for a module, which is imported when an attribute of the module is first read."""

    # `lazy_loader.load` puts its stand-in into `sys.modules`, where others would take JAX for imported.
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if not TYPE_CHECKING:
    jax, jnp = Lazy("jax"), Lazy("jax.numpy")
    Array = Any  # in annotations: anything that has a shape and a dtype
