"""networkx, imported when something of it is first used: most networks are made without it."""

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from gossamer.basics.lazy import Lazy

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = Lazy("networkx")

__all__ = ["is_directed", "is_graph", "nx"]


def is_graph(value: Any) -> "TypeGuard[nx.Graph]":
    """Return True for a graph of networkx, directed or not, which nobody has before networkx is imported."""
    return "networkx" in sys.modules and isinstance(value, nx.Graph)


def is_directed(value: Any) -> "TypeGuard[nx.DiGraph]":
    """Return True for a directed graph of networkx."""
    return "networkx" in sys.modules and isinstance(value, nx.DiGraph)
