r"""Compressed vectors on the wire: C(a) as bytes, and back.

| compressor | sent for a vector of d numbers |
| --- | --- |
| top-k | k numbers and their places, 4 bytes each (8 above 2³¹) |
| rand-k | k numbers and a seed of 4 bytes; with the simulator's draws their places in place of the seed |
| scaled sign | d bits and one number |
| QSGD, rounding by the largest | d levels of 1, 2, 4, 8, 16 or 32 bits, the fewest that suffice, and one number |
| bf16 | d numbers of 2 bytes |
| identity, rounding to a step, any other | d numbers |

PyTorch computes all of these. JAX, on the CPU, computes compressors of your own, and with the simulator's draws those
that draw at random. The sender, too, decodes what it sent, so that all hold the same bits.
"""

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gossamer.compressors import BF16, QSGD, Identity, RandK, RoundLinf, RoundTo, ScaledSign, TopK

if TYPE_CHECKING:
    from gossamer.torch.agent import AgentDraw

INTEGERS = {8: torch.int8, 16: torch.int16, 32: torch.int32}  # by their bits, the integers that PyTorch has


class Codec:
    """A codec for vectors of one length by one compressor, in `size` bytes each: here all numbers as they are."""

    def __init__(self, compressor: Any, like: Tensor, simulated: bool):
        self.compressor, self.dtype, self.d, self.simulated = compressor, like.dtype, like.numel(), simulated
        self.wire = torch.bfloat16 if type(compressor) is BF16 else like.dtype
        self.size = self.d * self.wire.itemsize

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        """Return C(a) as bytes."""
        kind = type(self.compressor)
        if kind is RoundTo:
            step = torch.tensor(float(self.compressor.step), dtype=a.dtype)
            a = torch.round(a / step) * step
        elif kind is BF16:
            a = a.to(torch.float32).to(torch.bfloat16)
        elif kind is not Identity:
            a = draw.compressed(self.compressor, a)
        return _bytes(a)

    def decode(self, sent: Tensor) -> Tensor:
        """Return C(a) from bytes."""
        return sent.view(self.wire).to(self.dtype)


class SparseCodec(Codec):
    """The numbers that are kept, and their places, or the seed that the places were drawn from."""

    def __init__(self, compressor: Any, like: Tensor, simulated: bool):
        super().__init__(compressor, like, simulated)
        self.k = compressor.k if compressor.k is not None else max(1, round(compressor.share * self.d))
        self.seeded = compressor.needs_key and not simulated
        self.places = torch.int32 if self.d < 2**31 else torch.int64
        self.split = self.k * like.element_size()
        self.size = self.split + (4 if self.seeded else self.k * self.places.itemsize)

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        if self.seeded:
            seed = draw.seed()
            factor = self.d / self.k if self.compressor.scaled else 1.0
            kept = a[subset(seed, self.d, self.k).to(a.device)] * factor
            where = torch.tensor(list(seed.to_bytes(4, "little")), dtype=torch.uint8).to(a.device)
        else:
            a = draw.compressed(self.compressor, a) if self.compressor.needs_key else a
            chosen = torch.topk(a.abs(), self.k, sorted=False).indices
            kept, where = a[chosen], _bytes(chosen.to(self.places))
        return torch.cat([_bytes(kept), where])

    def decode(self, sent: Tensor) -> Tensor:
        values, where = _view(sent[: self.split], self.dtype), sent[self.split :]
        if self.seeded:
            seed = int.from_bytes(bytes(where.tolist()), "little")
            places = subset(seed, self.d, self.k).to(sent.device)
        else:
            places = _view(where, self.places).long()
        decoded = torch.zeros(self.d, dtype=self.dtype, device=sent.device)
        decoded[places] = values
        return decoded


class SignCodec(Codec):
    """A number, and a bit for each coordinate."""

    def __init__(self, compressor: Any, like: Tensor, simulated: bool):
        super().__init__(compressor, like, simulated)
        self.item = like.element_size()
        self.size = self.item + math.ceil(self.d / 8)

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        return torch.cat([_bytes(a.abs().mean().view(1)), pack(a < 0, 1)])

    def decode(self, sent: Tensor) -> Tensor:
        size = _view(sent[: self.item], self.dtype)
        return torch.where(unpack(sent[self.item :], 1, self.d) == 1, -size, size)


class LevelsCodec(Codec):
    """A number, and a level from −s to s for each coordinate."""

    def __init__(self, compressor: Any, like: Tensor, simulated: bool):
        super().__init__(compressor, like, simulated)
        self.item, self.levels = like.element_size(), compressor.levels
        self.width = next(b for b in (1, 2, 4, 8, 16, 32) if 2**b >= 2 * self.levels + 1)
        self.size = self.item + math.ceil(self.d * self.width / 8)

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        norm = torch.linalg.vector_norm(a, 2 if self.compressor.needs_key else math.inf)
        scale = torch.where(norm > 0, norm, 1)
        if not self.compressor.needs_key:
            parts = (a / scale).mul_(self.levels).round_()
        elif self.simulated:
            parts = torch.round(draw.compressed(self.compressor, a) * self.levels / scale)
        else:  # up or down by chance
            chance = torch.rand(a.shape, generator=_generator(draw.seed())).to(a)
            level = chance.add_((self.levels * a.abs()).div_(scale)).floor_().clamp_(max=self.levels)
            parts = level.copysign_(a)
        if self.width in INTEGERS:
            return torch.cat([_bytes(norm.view(1)), _bytes(parts.to(INTEGERS[self.width]))])
        return torch.cat([_bytes(norm.view(1)), pack(parts.add_(self.levels).to(torch.uint8), self.width)])

    def decode(self, sent: Tensor) -> Tensor:
        norm, parts = _view(sent[: self.item], self.dtype), sent[self.item :]
        if self.width in INTEGERS:
            parts = _view(parts, INTEGERS[self.width])
        else:
            parts = unpack(parts, self.width, self.d).to(torch.int8).sub_(self.levels)
        return parts.to(self.dtype).mul_(norm / self.levels)


CODECS = {TopK: SparseCodec, RandK: SparseCodec, ScaledSign: SignCodec, QSGD: LevelsCodec, RoundLinf: LevelsCodec}


def codec_of(compressor: Any, like: Tensor, simulated: bool) -> Codec:
    """Return the codec of a compressor for vectors such as this one, with the simulator's draws or with PyTorch's."""
    compressor.check(like.numel())
    # by the very type: a class of one's own that is made from one of ours may compress otherwise
    return CODECS.get(type(compressor), Codec)(compressor, like, simulated)


def subset(seed: int, d: int, k: int) -> Tensor:
    """Return k of d places, every choice as likely as any other: what is missing is drawn again until there are k."""
    generator, fewer = _generator(seed), min(k, d - k)
    chosen = torch.zeros(0, dtype=torch.int64)
    while (missing := fewer - chosen.numel()) > 0:
        chosen = torch.unique(torch.cat([chosen, torch.randint(d, (missing,), generator=generator)]))
    if fewer == k:
        return chosen
    kept = torch.ones(d, dtype=torch.bool)
    kept[chosen] = False
    return kept.nonzero().view(-1)


def pack(values: Tensor, width: int) -> Tensor:
    """Pack whole numbers from 0 to 2^width − 1 into bytes, of which each holds several; the width is 1, 2 or 4."""
    each = 8 // width
    padded = torch.nn.functional.pad(values.to(torch.uint8), (0, -values.numel() % each)).view(-1, each)
    packed = padded[:, 0].clone()
    for k in range(1, each):
        packed |= padded[:, k] << (k * width)
    return packed


def unpack(sent: Tensor, width: int, count: int) -> Tensor:
    """Return what was packed."""
    shifts = torch.arange(0, 8, width, dtype=torch.uint8, device=sent.device)
    return ((sent[:, None] >> shifts) & (2**width - 1)).view(-1)[:count]


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _bytes(a: Tensor) -> Tensor:
    return a.contiguous().view(torch.uint8)


def _view(sent: Tensor, dtype: torch.dtype) -> Tensor:
    return sent.clone().view(dtype)  # a slice of bytes need not start where numbers may
