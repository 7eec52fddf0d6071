r"""Compressed vectors on the wire: how C(a) becomes bytes, and bytes become C(a) again.

| compressor | sent for a vector of d numbers |
| --- | --- |
| top-k | k numbers and their places, 4 bytes each (8 above 2³¹) |
| rand-k | k numbers and a seed of 4 bytes; with the simulator's draws their places in place of the seed |
| scaled sign | d bits and one number |
| QSGD, rounding by the largest | d levels of 1, 2, 4, 8, 16 or 32 bits, the fewest that suffice, and one number |
| bf16 | d numbers of 2 bytes |
| identity, rounding to a step, any other | d numbers |

All of these are computed by PyTorch. Where the draws of the simulator are asked for, those that draw at random are
computed by JAX on the CPU, and so are always compressors of your own. The sender, too, decodes what it sent, so that
all hold the same bits.
"""

import math
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from gossamer.compressors import BF16, QSGD, Identity, RandK, RoundLinf, RoundTo, ScaledSign, TopK

if TYPE_CHECKING:
    from gossamer.torch.agent import AgentDraw


class Codec(Protocol):
    """A codec for vectors of one length by one compressor, in `size` bytes each."""

    size: int

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor: ...

    def decode(self, sent: Tensor) -> Tensor: ...


def codec_of(compressor: Any, like: Tensor, simulated: bool) -> Codec:
    """Return the codec of a compressor for vectors such as this one, with the simulator's draws or with PyTorch's."""
    compressor.check(like.numel())
    if type(compressor) is RandK and not simulated:
        return SeededCodec(compressor, like)
    # a class of one's own that is made from one of ours may compress otherwise
    return CODECS.get(type(compressor), DenseCodec)(compressor, like)


class DenseCodec:
    """All numbers, as they are."""

    def __init__(self, compressor: Any, like: Tensor):
        self.compressor, self.dtype = compressor, like.dtype
        self.size = like.numel() * like.element_size()

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        return _bytes(draw.compressed(self.compressor, a))

    def decode(self, sent: Tensor) -> Tensor:
        return sent.view(self.dtype)


class WholeCodec(DenseCodec):
    """All numbers, of which nothing was lost."""

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        return _bytes(a)


class RoundedCodec(DenseCodec):
    """All numbers, as multiples of a step."""

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        step = torch.tensor(float(self.compressor.step), dtype=a.dtype)
        return _bytes(torch.round(a / step) * step)


class HalvesCodec:
    """All numbers, as bfloat16."""

    def __init__(self, compressor: Any, like: Tensor):
        self.dtype, self.size = like.dtype, 2 * like.numel()

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        return _bytes(a.to(torch.float32).to(torch.bfloat16))

    def decode(self, sent: Tensor) -> Tensor:
        return sent.view(torch.bfloat16).to(self.dtype)


class SparseCodec:
    """The numbers that are kept, and where they stand."""

    def __init__(self, compressor: Any, like: Tensor):
        self.compressor, self.dtype, self.d = compressor, like.dtype, like.numel()
        self.k = _kept(compressor, self.d)
        self.places = torch.int32 if self.d < 2**31 else torch.int64
        self.split = self.k * like.element_size()
        self.size = self.split + self.k * self.places.itemsize

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        kept = draw.compressed(self.compressor, a) if self.compressor.needs_key else a
        chosen = torch.topk(kept.abs(), self.k, sorted=False).indices
        return torch.cat([_bytes(kept[chosen]), _bytes(chosen.to(self.places))])

    def decode(self, sent: Tensor) -> Tensor:
        values, places = _view(sent[: self.split], self.dtype), _view(sent[self.split :], self.places)
        decoded = torch.zeros(self.d, dtype=self.dtype, device=sent.device)
        decoded[places.long()] = values
        return decoded


class SeededCodec:
    """The numbers that are kept, and the seed from which their places were drawn."""

    def __init__(self, compressor: Any, like: Tensor):
        self.dtype, self.d, self.k = like.dtype, like.numel(), _kept(compressor, like.numel())
        self.factor = self.d / self.k if compressor.scaled else 1.0
        self.size = 4 + self.k * like.element_size()

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        seed = draw.seed()
        kept = a[subset(seed, self.d, self.k).to(a.device)] * self.factor
        return torch.cat([torch.tensor(list(seed.to_bytes(4, "little")), dtype=torch.uint8).to(a.device), _bytes(kept)])

    def decode(self, sent: Tensor) -> Tensor:
        seed = int.from_bytes(bytes(sent[:4].tolist()), "little")
        decoded = torch.zeros(self.d, dtype=self.dtype, device=sent.device)
        decoded[subset(seed, self.d, self.k).to(sent.device)] = _view(sent[4:], self.dtype)
        return decoded


class SignCodec:
    """A number, and a bit for each coordinate."""

    def __init__(self, compressor: Any, like: Tensor):
        self.dtype, self.d, self.item = like.dtype, like.numel(), like.element_size()
        self.size = self.item + math.ceil(self.d / 8)

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        return torch.cat([_bytes(a.abs().mean().view(1)), pack(a < 0, 1)])

    def decode(self, sent: Tensor) -> Tensor:
        size = _view(sent[: self.item], self.dtype)
        return torch.where(unpack(sent[self.item :], 1, self.d) == 1, -size, size)


class LevelsCodec:
    """A number, and a level from −s to s for each coordinate."""

    def __init__(self, compressor: Any, like: Tensor):
        self.compressor, self.dtype, self.d, self.item = compressor, like.dtype, like.numel(), like.element_size()
        self.levels = compressor.levels
        self.width = next(b for b in (1, 2, 4, 8, 16, 32) if 2**b >= 2 * self.levels + 1)
        self.size = self.item + math.ceil(self.d * self.width / 8)

    def encode(self, a: Tensor, draw: "AgentDraw") -> Tensor:
        if self.compressor.needs_key:
            scale = torch.linalg.vector_norm(a)
            parts = self._round_by_chance(a, torch.where(scale > 0, scale, 1), draw)
        else:
            scale = torch.linalg.vector_norm(a, math.inf)
            parts = (a / torch.where(scale > 0, scale, 1)).mul_(self.levels).round_()
        return torch.cat([_bytes(scale.view(1)), _packed(parts, self.width, self.levels)])

    def _round_by_chance(self, a: Tensor, scale: Tensor, draw: "AgentDraw") -> Tensor:
        """Return parts of the norm, rounded up or down by chance."""
        if draw.simulated:
            return torch.round(draw.compressed(self.compressor, a) * self.levels / scale)
        chance = torch.rand(a.shape, generator=_generator(draw.seed())).to(a)
        level = chance.add_((self.levels * a.abs()).div_(scale)).floor_().clamp_(max=self.levels)
        return level.copysign_(a)

    def decode(self, sent: Tensor) -> Tensor:
        scale = _view(sent[: self.item], self.dtype)
        parts = _unpacked(sent[self.item :], self.width, self.d, self.levels)
        return parts.to(self.dtype).mul_(scale / self.levels)


WHOLE = {8: torch.int8, 16: torch.int16, 32: torch.int32}
"""Whole numbers of so many bits that a machine has, with a sign."""


def _packed(parts: Tensor, width: int, levels: int) -> Tensor:
    """Return whole numbers from −levels to levels, held as floats, as bytes."""
    return _bytes(parts.to(WHOLE[width])) if width in WHOLE else pack(parts.add_(levels).to(torch.uint8), width)


def _unpacked(sent: Tensor, width: int, count: int, levels: int) -> Tensor:
    """Return what was packed."""
    if width in WHOLE:
        return _view(sent, WHOLE[width]) if width > 8 else sent.view(torch.int8)
    return unpack(sent, width, count).to(torch.int8).sub_(levels)


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


def _kept(compressor: Any, d: int) -> int:
    return compressor.k if compressor.k is not None else max(1, round(compressor.share * d))


def _bytes(a: Tensor) -> Tensor:
    return a.contiguous().view(torch.uint8)


def _view(sent: Tensor, dtype: torch.dtype) -> Tensor:
    # a slice of bytes need not start where numbers may
    return sent.clone().view(dtype)
