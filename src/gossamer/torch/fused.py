"""The arithmetic of a rule on long vectors: noted as it is written down, and then done block by block.

A rule is written as its paper's equations, and each product and sum in them would be a vector of its own for a moment.
Here ``wx - eta * v`` makes a note; once all new arrays of a round are known, a block of each is computed after the
other, by the same operations in the same order and so to the same bits. What is between is as long as a block, and
results are put where messages and gradients were that nobody needs any more. It saves memory, not time: an operation on
a block costs some microseconds however short it is.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gossamer.torch import spare
from gossamer.torch.nearby import Elsewhere, here, read

BLOCK = 1 << 17
"""How many numbers a thread computes at a time: a multiple of what a processor computes at once."""
SHORTEST = 1 << 18
"""Models of fewer numbers are computed as they are written: there is little to save."""

Chunks = Sequence[Tensor | Elsewhere | float]
"""An operand, block by block."""


class Number:
    """A hyper-parameter that may be turned while a rule is in the middle of a round: read where a product is taken."""

    __slots__ = ("data",)

    def __init__(self, data: Any = 0.0):
        self.data: float | Tensor = data

    def fill_(self, data: float) -> None:
        self.data = data


class Vector:
    """An array of a rule that is there, or that is noted down: `op` of two others, or of one and a number.

    Args:
        value: the array, if it is there; it may stand in the memory of another process, from where `read` takes it.
        spent: whether its memory may be used for something else at the end of the round.
    """

    __slots__ = ("args", "op", "shows", "size", "spent", "value")

    def __init__(self, value: Any = None, spent: bool = False, op: Any = None, args: tuple[Any, ...] = ()):
        self.value, self.spent, self.op, self.args = value, spent, op, args
        self.shows = False
        """Whether a number that is not finite in it shows in another array that was computed last in a round."""
        self.size: int = value.numel() if value is not None else max(_size(a) for a in args)

    @property
    def shape(self) -> tuple[int]:
        return (self.size,)


def _noted(op: Callable[..., Tensor], *args: Any) -> Vector:
    made = Vector(op=op, args=args)
    if made.size == 1:  # such as the weights of push-sum
        made.value, made.args = op(*(a.value if isinstance(a, Vector) else a for a in args)), ()
    return made


def _size(a: Any) -> int:
    return a.size if isinstance(a, Vector) else 1


def _operand(a: Any) -> Any:
    """What a number is now, or a vector; None for anything else."""
    if isinstance(a, Number):
        a = a.data
    if isinstance(a, Tensor):
        return Vector(a)
    return a if isinstance(a, (Vector, int, float)) else None


def _binary(op: Callable[..., Tensor], turned: bool, commutes: bool) -> Callable[[Vector, Any], Any]:
    def do(mine: Vector, other: Any) -> Any:
        if (given := _operand(other)) is None:
            return NotImplemented
        if not turned or (commutes and not isinstance(given, Vector)):
            return _noted(op, mine, given)
        first = given if isinstance(given, Vector) else torch.tensor(given, dtype=torch.float64)  # promotes nothing
        return _noted(op, first, mine)

    return do


def _of_numbers(op: Callable[[Any, Any], Any], turned: bool) -> Callable[[Number, Any], Any]:
    """Of two numbers another one, and of a number and a tensor a tensor."""

    def do(mine: Number, other: Any) -> Any:
        if isinstance(other, Vector):
            return NotImplemented
        theirs = other.data if isinstance(other, Number) else other
        made = op(theirs, mine.data) if turned else op(mine.data, theirs)
        return made if isinstance(theirs, Tensor) and theirs is other else Number(made)

    return do


def _divided(a: Any, b: Any) -> Any:
    """As vectors are: by zero it is infinite, which is refused where the state is looked at."""
    return a * math.inf if isinstance(b, (int, float)) and not b else a / b


OPERATORS = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "truediv": torch.div, "pow": torch.pow}
for _name, _op in OPERATORS.items():
    for _turned in (False, True):
        _method = f"__{'r' if _turned else ''}{_name}__"
        setattr(Vector, _method, _binary(_op, _turned, _name in ("add", "mul")))
        setattr(Number, _method, _of_numbers(_divided if _name == "truediv" else getattr(operator, _name), _turned))
for _name in ("gt", "ge", "lt", "le"):
    setattr(Vector, f"__{_name}__", _binary(getattr(torch, _name), turned=False, commutes=False))
Vector.__neg__ = lambda mine: _noted(torch.neg, mine)  # pyright: ignore[reportAttributeAccessIssue]
Vector.__abs__ = lambda mine: _noted(torch.abs, mine)  # pyright: ignore[reportAttributeAccessIssue]
Number.__neg__ = lambda mine: Number(-mine.data)  # pyright: ignore[reportAttributeAccessIssue]


def weighted(parts: Sequence[Any], weights: Sequence[float], own: Tensor, weight: float) -> Vector:
    """The weighted sum of what neighbours sent, whose memory it may use, and of one's own, which comes second."""
    if not parts:
        return Vector(own * weight, spent=True)
    if own.numel() < SHORTEST:
        made = here(parts[0]).mul_(weights[0]).add_(own, alpha=weight)
        for a, by in zip(parts[1:], weights[1:], strict=True):
            made.add_(here(a), alpha=by)
        return Vector(made, spent=True)
    noted = _noted(partial(torch.add, alpha=weight), _noted(torch.mul, _sent(parts[0]), weights[0]), Vector(own))
    for a, by in zip(parts[1:], weights[1:], strict=True):
        noted = _noted(partial(torch.add, alpha=by), noted, _sent(a))
    return noted


def _sent(a: Tensor | Elsewhere) -> Vector:
    """What a neighbour sent, or left where it is."""
    return Vector(a, spent=True) if isinstance(a, Tensor) else _noted(read, Vector(a))


def lend(arrays: Iterable[Any]) -> None:
    """Keep the memory of arrays until the end of the round: neighbours may read there."""
    for a in arrays:
        if isinstance(a, Vector):
            a.spent = False


def computed(arrays: Iterable[Any], last: bool = False) -> tuple[Tensor, ...]:
    """The arrays, of which some may only be noted.

    Args:
        arrays: vectors and tensors.
        last: whether what is `spent` is needed for nothing else, so that results may be put there.
    """
    given = list(arrays)
    kept = {id(a): a for a in given if isinstance(a, Vector)}
    wanted = [a for a in kept.values() if a.value is None]
    for size in {a.size for a in wanted}:
        _compute([a for a in wanted if a.size == size], set(kept), last)
    values: list[Any] = [a.value if isinstance(a, Vector) else a for a in given]
    return tuple(values)


def _compute(wanted: list[Vector], kept: set[int], last: bool) -> None:
    """Compute vectors of one size; those that are kept must stay as they are, also where they are there already."""
    order = _in_order(wanted)
    uses = Counter(id(a) for vector in order for a in vector.args if isinstance(a, Vector))
    uses.update(kept)
    results = set(map(id, wanted))
    if last:
        _show_in_others(order, results)
    memory, chunks, program = Memory(order, wanted[0].size), dict[int, Chunks](), []
    for vector in order:
        if vector.value is not None:
            chunks[id(vector)] = memory.split(vector.value)
            continue
        given = [chunks[id(a)] if isinstance(a, Vector) else memory.all(a) for a in vector.args]
        for a in vector.args:
            if isinstance(a, Vector):
                uses[id(a)] -= 1
                if not uses[id(a)]:
                    memory.give_back(a, chunks[id(a)], last)
        chunks[id(vector)] = memory.split(memory.whole(vector)) if id(vector) in results else memory.block()
        program.append((vector.op, given, chunks[id(vector)]))
    for k in range(memory.count):
        for op, given, out in program:
            op(*[a[k] for a in given], out=out[k])
    for vector in wanted:
        vector.value, vector.args = memory.wholes[id(vector)], ()


SPREADING = (torch.add, torch.sub, torch.mul, torch.neg, torch.abs)
"""What is not finite stays so in a sum, and in a product whatever the other factor is."""


def _show_in_others(order: list[Vector], results: set[int]) -> None:
    """Find out which vectors need not be looked at, since what is not finite in them shows in a result made of them."""
    seen = set[int]()
    for vector in reversed(order):
        vector.shows = id(vector) in seen
        if (vector.shows or id(vector) in results) and getattr(vector.op, "func", vector.op) in SPREADING:
            seen |= {id(a) for a in vector.args if isinstance(a, Vector) and a.size == vector.size}


class Memory:
    """What vectors of one size are computed in: whole vectors for results, and blocks for what is between."""

    def __init__(self, order: list[Vector], size: int):
        self.like = next(v.value for v in order if isinstance(v.value, Tensor) and v.size == size)
        # what is launched on a GPU costs more than what it computes on a block
        self.length = size if self.like.is_cuda else min(size, BLOCK * torch.get_num_threads())
        self.size, self.count = size, -(-size // self.length)
        self.wholes: dict[int, Tensor] = {}
        """The results, by vector."""
        self._free: list[Tensor] = []
        self._blocks: list[Chunks] = []

    def split(self, a: Tensor | Elsewhere) -> Chunks:
        return a.split(self.length) if a.numel() == self.size else self.all(a)

    def all(self, a: Any) -> Chunks:
        """One and the same for all blocks."""
        return (a,) * self.count

    def give_back(self, a: Vector, chunks: Chunks, last: bool) -> None:
        """Take the memory of an operand that is needed no more, if it is nobody else's."""
        if a.value is None:
            self._blocks.append(chunks)
        elif last and a.spent and a.size == self.size:
            self._free.append(a.value)

    def whole(self, result: Vector) -> Tensor:
        made = self.wholes[id(result)] = self._free.pop() if self._free else self._empty(self.size)
        return made

    def block(self) -> Chunks:
        if self._blocks:
            return self._blocks.pop()
        made = self._empty(self.length)
        return (*self.all(made)[1:], made[: self.size - (self.count - 1) * self.length])

    def _empty(self, size: int) -> Tensor:
        return spare.empty(size, self.like.dtype, self.like.device)


def spared(size: int, dtype: torch.dtype) -> list[spare.Spares]:
    """What keeps memory for vectors of this length and for blocks of them, where they are long.

    It is for ranks that read what others have: those that receive it hold that meanwhile, and have less to spare.
    """
    if size < SHORTEST:
        return []
    block, kept = BLOCK * torch.get_num_threads(), [spare.spares(size, dtype)]
    return [*kept, spare.spares(block, dtype, spare.MOST_BLOCKS)] if block < size else kept


def _in_order(wanted: list[Vector]) -> list[Vector]:
    """The vectors and all that they are made of, each after what it is made of."""
    order: dict[int, Vector] = {}
    for vector in wanted:
        _put(vector, order)
    return list(order.values())


def _put(vector: Vector, order: dict[int, Vector]) -> None:
    if id(vector) not in order:
        for a in vector.args:
            if isinstance(a, Vector):
                _put(a, order)
        order[id(vector)] = vector
