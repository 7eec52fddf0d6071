r"""Compressed vectors on the wire: how C(a) becomes bytes, and bytes become C(a) again.

| compressor | sent for a vector of d numbers |
| --- | --- |
| top-k, rand-k | k numbers and their places, 4 bytes each (8 above 2³¹) |
| scaled sign | d bits and one number |
| QSGD, rounding by the largest | d levels of 1, 2, 4, 8, 16 or 32 bits, the fewest that suffice, and one number |
| bf16 | d numbers of 2 bytes |
| identity, rounding to a step, any other | d numbers |

Top-k, sign and all rounding are computed by PyTorch. Compressors that draw at random, and your own, are computed by JAX
on the CPU, with the draws of the simulator. The sender, too, decodes what it sent, so that all hold the same bits.
"""

import math
from typing import Any, Protocol

import torch
from torch import Tensor

from gossamer.compressors import BF16, QSGD, Identity, RandK, RoundLinf, RoundTo, ScaledSign, TopK


class Codec(Protocol):
    """Encodes vectors of one length by one compressor, in `size` bytes each."""

    size: int

    def encode(self, a: Tensor, draw: Any) -> Tensor: ...

    def decode(self, sent: Tensor) -> Tensor: ...


def codec_of(compressor: Any, like: Tensor) -> Codec:
    """The codec of a compressor for vectors such as this one."""
    compressor.check(like.numel())
    # a class of one's own that is made from one of ours may compress otherwise
    return CODECS.get(type(compressor), DenseCodec)(compressor, like)


class DenseCodec:
    """All numbers, as they are."""

    def __init__(self, compressor: Any, like: Tensor):
        self.compressor, self.dtype = compressor, like.dtype
        self.size = like.numel() * like.element_size()

    def encode(self, a: Tensor, draw: Any) -> Tensor:
        return _bytes(draw(self.compressor, a))

    def decode(self, sent: Tensor) -> Tensor:
        return sent.view(self.dtype)


class WholeCodec(DenseCodec):
    """All numbers, of which nothing was lost."""

    def encode(self, a: Tensor, draw: Any) -> Tensor:
        return _bytes(a)


class RoundedCodec(DenseCodec):
    """All numbers, as multiples of a step."""

    def encode(self, a: Tensor, draw: Any) -> Tensor:
        step = torch.tensor(float(self.compressor.step), dtype=a.dtype)
        return _bytes(torch.round(a / step) * step)


class HalvesCodec:
    """All numbers, as bfloat16."""

    def __init__(self, compressor: Any, like: Tensor):
        self.dtype, self.size = like.dtype, 2 * like.numel()

    def encode(self, a: Tensor, draw: Any) -> Tensor:
        return _bytes(a.to(torch.float32).to(torch.bfloat16))

    def decode(self, sent: Tensor) -> Tensor:
        return sent.view(torch.bfloat16).to(self.dtype)


class SparseCodec:
    """The numbers that are kept, and where they stand."""

    def __init__(self, compressor: Any, like: Tensor):
        self.compressor, self.dtype, self.d = compressor, like.dtype, like.numel()
        self.k = compressor.k if compressor.k is not None else max(1, round(compressor.share * self.d))
        self.places = torch.int32 if self.d < 2**31 else torch.int64
        self.split = self.k * like.element_size()
        self.size = self.split + self.k * self.places.itemsize

    def encode(self, a: Tensor, draw: Any) -> Tensor:
        kept = draw(self.compressor, a) if self.compressor.needs_key else a
        chosen = torch.topk(kept.abs(), self.k, sorted=False).indices
        return torch.cat([_bytes(kept[chosen]), _bytes(chosen.to(self.places))])

    def decode(self, sent: Tensor) -> Tensor:
        values, places = _view(sent[: self.split], self.dtype), _view(sent[self.split :], self.places)
        decoded = torch.zeros(self.d, dtype=self.dtype, device=sent.device)
        decoded[places.long()] = values
        return decoded


class SignCodec:
    """One number, and a bit for each coordinate."""

    def __init__(self, compressor: Any, like: Tensor):
        self.dtype, self.d, self.item = like.dtype, like.numel(), like.element_size()
        self.size = self.item + math.ceil(self.d / 8)

    def encode(self, a: Tensor, draw: Any) -> Tensor:
        return torch.cat([_bytes(a.abs().mean().view(1)), pack((a < 0).to(torch.int64), 1)])

    def decode(self, sent: Tensor) -> Tensor:
        size = _view(sent[: self.item], self.dtype)
        return torch.where(unpack(sent[self.item :], 1, self.d) == 1, -size, size)


class LevelsCodec:
    """One number, and a level from −s to s for each coordinate."""

    def __init__(self, compressor: Any, like: Tensor):
        self.compressor, self.dtype, self.d, self.item = compressor, like.dtype, like.numel(), like.element_size()
        self.levels = compressor.levels
        self.width = next(b for b in (1, 2, 4, 8, 16, 32) if 2**b >= 2 * self.levels + 1)
        self.size = self.item + math.ceil(self.d * self.width / 8)

    def encode(self, a: Tensor, draw: Any) -> Tensor:
        if self.compressor.needs_key:
            scale = torch.linalg.vector_norm(a)
            parts = torch.round(draw(self.compressor, a) * self.levels / torch.where(scale > 0, scale, 1))
        else:
            scale = a.abs().max()
            parts = torch.round(self.levels * (a / torch.where(scale > 0, scale, 1)))
        return torch.cat([_bytes(scale.view(1)), pack(parts.to(torch.int64) + self.levels, self.width)])

    def decode(self, sent: Tensor) -> Tensor:
        scale = _view(sent[: self.item], self.dtype)
        parts = unpack(sent[self.item :], self.width, self.d) - self.levels
        return parts.to(self.dtype) / self.levels * scale


CODECS: dict[type, type[Any]] = {
    Identity: WholeCodec,
    TopK: SparseCodec,
    RandK: SparseCodec,
    ScaledSign: SignCodec,
    QSGD: LevelsCodec,
    RoundLinf: LevelsCodec,
    BF16: HalvesCodec,
    RoundTo: RoundedCodec,
}


def pack(values: Tensor, width: int) -> Tensor:
    """Whole numbers from 0 to 2^width − 1 as bytes; several share a byte where the width is below 8."""
    if width >= 8:
        return ((values[:, None] >> torch.arange(0, width, 8, device=values.device)) & 255).to(torch.uint8).view(-1)
    each = 8 // width
    padded = torch.nn.functional.pad(values, (0, -values.numel() % each)).view(-1, each)
    shifts = torch.arange(0, 8, width, device=values.device)
    return (padded << shifts).sum(1).to(torch.uint8)


def unpack(sent: Tensor, width: int, count: int) -> Tensor:
    """What was packed."""
    if width >= 8:
        columns = sent.view(-1, width // 8).to(torch.int64)
        return (columns << torch.arange(0, width, 8, device=sent.device)).sum(1)
    shifts = torch.arange(0, 8, width, device=sent.device)
    return ((sent.to(torch.int64)[:, None] >> shifts) & (2**width - 1)).view(-1)[:count]


def _bytes(a: Tensor) -> Tensor:
    return a.contiguous().view(torch.uint8)


def _view(sent: Tensor, dtype: torch.dtype) -> Tensor:
    # a slice of bytes need not start where numbers may
    return sent.clone().view(dtype)
