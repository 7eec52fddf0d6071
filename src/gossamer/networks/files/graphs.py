"""GML, and JSON in the node-link form of networkx and D3."""

import json
from typing import Any

from gossamer.basics.lazy_networkx import nx
from gossamer.core import InputError, brief
from gossamer.networks.files.filegraph import FileGraph, edge


def read_gml(text: str) -> FileGraph:
    """The graph of a GML file; nodes are known by their ids."""
    try:
        graph = nx.parse_gml(text.splitlines(), label="id")  # without a destringizer no value is evaluated
    except (nx.NetworkXError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise InputError(f"this is not GML: {' '.join(str(error).split()) or type(error).__name__}.") from None
    except RecursionError:
        raise InputError("this is not GML: it nests too many lists.") from None
    links = [
        edge(source, target, data.get("weight"), f"edge {number}")
        for number, (source, target, data) in enumerate(graph.edges(data=True))
    ]
    return FileGraph(list(graph.nodes), graph.is_directed(), links)


def read_node_link(text: str) -> FileGraph:
    """``{"nodes": [{"id": …}, …], "links": [{"source": …, "target": …}, …], "directed": …}``; "edges" is "links"."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"line {error.lineno}: this is not JSON: {error.msg}.") from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"this is not JSON: {str(error)[:80]}.") from None
    edges = "edges" if isinstance(document, dict) and "edges" in document else "links"
    nodes = [_name(item, "id", f"nodes[{k}]") for k, item in enumerate(_list(document, "nodes"))]
    seen: dict[Any, int] = {}
    for k, node in enumerate(nodes):
        if seen.setdefault(node, k) != k:
            raise InputError(f"nodes[{k}]: node {node!r} stands here again; it was nodes[{seen[node]}].")
    links = []
    for k, item in enumerate(_list(document, edges)):
        place = f"{edges}[{k}]"
        links.append(edge(_name(item, "source", place), _name(item, "target", place), item.get("weight"), place))
    directed = document.get("directed", False)
    if not isinstance(directed, bool):
        raise InputError(f'"directed" must be true or false, but is {brief(directed)}.')
    return FileGraph(nodes, directed, links)


def _list(document: Any, key: str) -> list[Any]:
    items = document.get(key) if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise InputError(
            f'a graph in JSON is {{"nodes": [{{"id": 0}}, …], "links": [{{"source": 0, "target": 1}}, …]}}, but this '
            f"one has no list {key!r}."
        )
    return items


def _name(item: Any, key: str, place: str) -> str | int:
    name = item.get(key) if isinstance(item, dict) else None
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise InputError(f"{place}: {key!r} must be text or a whole number, but is {brief(name)}.")
    return name
