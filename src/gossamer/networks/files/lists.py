"""Lists of links as text: ``i j [weight]`` in each line, or an agent and all its neighbours."""

import itertools
from collections.abc import Iterator

from gossamer.core import InputError
from gossamer.networks.files.filegraph import FileGraph, edge

Numbered = tuple[int, int, str | None, str]
"""Both ends of a link, its weight if it has one, and its place."""


def read_edges(text: str, directed: bool) -> FileGraph:
    """One link a line, ``i j`` or ``i j weight``, between agents 0, 1, …; what follows # or % is a comment."""
    links: list[Numbered] = []
    for place, words in _lines(text):
        if words[2:] == ["{}"]:  # networkx writes the attributes of an edge there, and this one has none
            words = words[:2]
        if len(words) not in (2, 3):
            raise InputError(f"{place}: expected `i j` or `i j weight`, but got {_shown(words)}.")
        source, target = (_agent(word, place) for word in words[:2])
        links.append((source, target, words[2] if len(words) == 3 else None, place))
    return _checked(links, directed)


def read_neighbours(text: str, directed: bool) -> FileGraph:
    """One agent a line, followed by its neighbours: ``i j k …``."""
    links: list[Numbered] = []
    alone: list[Numbered] = []
    for place, words in _lines(text):
        source, *targets = (_agent(word, place) for word in words)
        alone.append((source, source, None, place))  # so that an agent without neighbours is known
        links += [(source, target, None, place) for target in targets]
    return _checked([*links, *alone], directed)


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """The place and the words of every line that is more than a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split("%", 1)[0].replace(",", " ").split()
        if words:
            yield f"line {number}", words


def _agent(word: str, place: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 10):
        raise InputError(
            f"{place}: {word[:40]!r} is not the number of an agent, 0, 1, 2, … . Nodes that have names can be read "
            "from GraphML, GEXF, GML or JSON."
        )
    return int(word)


def _checked(links: list[Numbered], directed: bool) -> FileGraph:
    """The links, if their ends are 0, 1, …, n − 1 without a gap."""
    if not links:
        raise InputError("there is no link in the file. Expected lines such as `0 1`.")
    agents = {end for source, target, *_ in links for end in (source, target)}
    last, place = max((max(source, target), place) for source, target, _, place in links)
    if last + 1 != len(agents):
        missing = next(k for k in itertools.count() if k not in agents)
        hint = (
            " Does the file count from 1? Subtract 1 from each number." if missing == 0 and last == len(agents) else ""
        )
        raise InputError(
            f"agents are 0, 1, …, n − 1, and the largest is {last} ({place}), but agent {missing} has no link.{hint}"
        )
    return FileGraph(list(range(last + 1)), directed, [edge(*ends) for ends in links])


def _shown(words: list[str]) -> str:
    return repr(" ".join(words)[:40])
