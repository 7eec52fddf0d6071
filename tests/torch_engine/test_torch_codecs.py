"""What travels is as short as the compressor says, and becomes C(a) again."""

import math
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer import compressors
from gossamer.torch.agent import ProcessAgent
from gossamer.torch.codecs import DenseCodec, HalvesCodec, LevelsCodec, SignCodec, SparseCodec, codec_of, pack, unpack

KINDS = {
    "top-k": (compressors.top_k(3), SparseCodec),
    "top share": (compressors.top_k(share=0.4), SparseCodec),
    "rand-k": (compressors.rand_k(3), SparseCodec),
    "sign": (compressors.scaled_sign(), SignCodec),
    "one level": (compressors.round_linf(1), LevelsCodec),
    "seven levels": (compressors.round_linf(7), LevelsCodec),
    "many levels": (compressors.round_linf(1000), LevelsCodec),
    "qsgd": (compressors.qsgd(5), LevelsCodec),
    "step": (compressors.round_to(0.25), DenseCodec),
    "identity": (compressors.identity(), DenseCodec),
    "bf16": (compressors.bf16(), HalvesCodec),
}
FLOATS = st.floats(-1e3, 1e3, width=32)
NUMBERS = st.lists(FLOATS, min_size=3, max_size=3) | st.lists(FLOATS, min_size=17, max_size=17)


def drawn(compressor, a):
    """C(a) as the simulator computes it."""
    agent = ProcessAgent(None, {}, None, 0, partial(jax.random.key, 7))
    return agent._draw(compressor, a, number=0)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=10, deadline=None)
@given(numbers=NUMBERS)
def test_what_arrives_is_the_compressed_vector(name, numbers):
    compressor, kind = KINDS[name]
    a = torch.tensor(numbers, dtype=torch.float64)
    if name in ("top-k", "top share"):  # the choice among equals is free
        a = a + torch.arange(len(a)) * 1e-3
    codec = codec_of(compressor, a)
    sent = codec.encode(a, partial(drawn))
    assert isinstance(codec, kind)
    assert (sent.dtype, sent.numel()) == (torch.uint8, codec.size)
    np.testing.assert_allclose(codec.decode(sent), drawn(compressor, a), rtol=1e-12, atol=1e-12)


def test_a_class_of_ones_own_compresses_as_it_says():
    @gs.pytree
    @dataclass(frozen=True)
    class Halved(compressors.TopK):
        def compress(self, key, a):
            return a / 2

    a = torch.arange(1.0, 4.0, dtype=torch.float64)
    codec = codec_of(Halved(1, None), a)
    np.testing.assert_array_equal(codec.decode(codec.encode(a, drawn)), a / 2)


@pytest.mark.parametrize("name", KINDS)
def test_bytes_are_the_bits_of_the_compressor_in_whole_places(name):
    """Top-k sends places of 32 bits, rand-k also where a seed would do; levels take 1, 2, 4, 8, 16 or 32 bits."""
    compressor, _ = KINDS[name]
    d = 1000
    a = torch.randn(d, dtype=torch.float32, generator=torch.Generator().manual_seed(0))
    size, stated = 8 * codec_of(compressor, a).size, compressor.bits(d, 4)
    if name in ("top-k", "top share"):
        k = 3 if name == "top-k" else 400
        assert size - stated == k * (32 - math.ceil(math.log2(d)))
    elif name == "rand-k":
        assert size - stated == 3 * 32 - 32
    elif name == "many levels":
        assert size - stated == d * (16 - 11)
    else:
        assert size == stated


@settings(max_examples=30, deadline=None)
@given(width=st.sampled_from([1, 2, 4, 8, 16, 32]), count=st.integers(1, 30), seed=st.integers(0, 99))
def test_packing_loses_nothing(width, count, seed):
    values = torch.from_numpy(np.random.default_rng(seed).integers(0, 2**width, count))
    sent = pack(values, width)
    assert sent.numel() == math.ceil(count * width / 8)
    assert torch.equal(unpack(sent, width, count), values)


def test_a_zero_vector_stays_zero():
    zero = torch.zeros(5, dtype=torch.float64)
    for compressor in (compressors.round_linf(3), compressors.qsgd(3), compressors.scaled_sign()):
        codec = codec_of(compressor, zero)
        assert torch.equal(codec.decode(codec.encode(zero, drawn)).abs(), zero)
