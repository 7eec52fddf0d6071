"""Compressors: lossy codes for vectors, with bounds on their error and the size of their messages."""

from collections.abc import Callable

from gossamer.compressors.compressor import Compressor, Errors
from gossamer.compressors.quantized import (
    BF16,
    QSGD,
    RoundLinf,
    RoundTo,
    ScaledSign,
    bf16,
    qsgd,
    round_linf,
    round_to,
    scaled_sign,
)
from gossamer.compressors.sparse import Identity, RandK, TopK, identity, rand_k, top_k
from gossamer.core import Registry

COMPRESSORS: Registry[Callable[..., Compressor]] = Registry(
    "compressor",
    "gossamer.compressors",
    {
        "identity": identity,
        "top-k": top_k,
        "rand-k": rand_k,
        "scaled-sign": scaled_sign,
        "qsgd": qsgd,
        "round-linf": round_linf,
        "round-step": round_to,
        "bf16": bf16,
    },
)
"""The compressors by name."""

register = COMPRESSORS.register
"""Register a function that returns a compressor under a name, so that a spec can name it."""

__all__ = [
    "BF16",
    "COMPRESSORS",
    "QSGD",
    "Compressor",
    "Errors",
    "Identity",
    "RandK",
    "RoundLinf",
    "RoundTo",
    "ScaledSign",
    "TopK",
    "bf16",
    "identity",
    "qsgd",
    "rand_k",
    "register",
    "round_linf",
    "round_to",
    "scaled_sign",
    "top_k",
]
