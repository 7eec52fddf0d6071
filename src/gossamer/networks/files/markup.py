"""GraphML and GEXF: the nodes and edges of one graph, read by a parser that refuses every document type.

Without a document type there are no entities to expand, inside the file or outside of it. Only what makes a graph is
looked at; drawings, labels and other attributes are passed over.
"""

from typing import Any
from xml.parsers import expat

from gossamer.core import InputError
from gossamer.networks.files.filegraph import Edge, FileGraph, edge

REFUSED = {"hyperedge": "links of more than two nodes", "port": "ports"}


def read_markup(content: bytes, format: str) -> FileGraph:
    """The graph in a file of this format, "graphml" or "gexf"."""
    reader = _Reader(format)
    try:
        reader.parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise InputError(f"line {error.lineno}: this is not XML: {reason}.") from None
    if reader.directed is None:
        raise InputError("there is no graph in the file.")
    return FileGraph(list(reader.nodes), reader.directed, reader.links)


class _Reader:
    """Gathers nodes and links as the parser meets them."""

    def __init__(self, format: str):
        self.format = format
        self.nodes: dict[str, str] = {}
        self.links: list[Edge] = []
        self.directed: bool | None = None
        self._depth = 0
        self._weight_key: str | None = None
        self._in_edge = False
        self._text: list[str] | None = None
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._read_text

    @property
    def _place(self) -> str:
        return f"line {self.parser.CurrentLineNumber}"

    def _refuse_doctype(self, *_: Any) -> None:
        raise InputError(f"{self._place}: a document type is not read, as it may define entities. Remove <!DOCTYPE …>.")

    def _start(self, tag: str, given: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        self._depth += 1
        if self._depth == 1 and name != self.format:
            raise InputError(f"{self._place}: expected <{self.format}>, but got <{name}>.")
        if name in REFUSED and self.format == "graphml":
            raise InputError(f"{self._place}: {REFUSED[name]} are not read, only plain links.")
        match name:
            case "graph":
                self._graph(given)
            case "node":
                self._node(self._attribute(given, name, "id"))
            case "edge":
                self._edge(given)
            case "key" if given.get("for") in ("edge", "all", None) and given.get("attr.name") == "weight":
                self._weight_key = given.get("id")
            case "data" if self._weight_key is not None and given.get("key") == self._weight_key and self._in_edge:
                self._text = []

    def _end(self, tag: str) -> None:
        self._depth -= 1
        name = tag.rpartition(":")[2]
        if name == "edge":
            self._in_edge = False
        elif name == "data" and self._text is not None:
            last = self.links[-1]
            self.links[-1] = edge(last.source, last.target, "".join(self._text).strip(), last.place)
            self._text = None

    def _read_text(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _graph(self, given: dict[str, str]) -> None:
        if self.directed is not None:
            raise InputError(
                f"{self._place}: a second graph begins here, or one inside another. Keep one graph a file."
            )
        if given.get("mode") == "dynamic":
            raise InputError(f"{self._place}: the graph changes in time, which is not read. Export one moment of it.")
        key = "edgedefault" if self.format == "graphml" else "defaultedgetype"
        kind = given.get(key, "undirected")
        if kind not in ("directed", "undirected"):
            raise InputError(f"{self._place}: {key} must be directed or undirected, but is {kind[:40]!r}.")
        self.directed = kind == "directed"

    def _node(self, name: str) -> None:
        if name in self.nodes:
            raise InputError(f"{self._place}: node {name!r} stands here again; it was at {self.nodes[name]}.")
        self.nodes[name] = self._place

    def _edge(self, given: dict[str, str]) -> None:
        source, target = (self._attribute(given, "edge", key) for key in ("source", "target"))
        one_way = given.get("directed" if self.format == "graphml" else "type")
        if one_way is not None and (one_way in ("true", "directed")) != self.directed:
            raise InputError(
                f"{self._place}: this edge is {one_way!r}, unlike the graph: links all go one way, or all go both."
            )
        weight = given.get("weight") if self.format == "gexf" else None
        self.links.append(edge(source, target, weight, self._place))
        self._in_edge = True

    def _attribute(self, given: dict[str, str], tag: str, key: str) -> str:
        if key not in given:
            raise InputError(f"{self._place}: <{tag}> has no {key}.")
        return given[key]
