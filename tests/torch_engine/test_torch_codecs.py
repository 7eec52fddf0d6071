"""What travels is as short as the compressor says, and becomes C(a) again."""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer import compressors
from gossamer.torch.agent import AgentDraw
from gossamer.torch.codecs import (
    Codec,
    LevelsCodec,
    SignCodec,
    SparseCodec,
    codec_of,
    pack,
    subset,
    unpack,
)

KINDS = {
    "top-k": (compressors.top_k(3), SparseCodec),
    "top share": (compressors.top_k(share=0.4), SparseCodec),
    "rand-k": (compressors.rand_k(3), SparseCodec),
    "sign": (compressors.scaled_sign(), SignCodec),
    "one level": (compressors.round_linf(1), LevelsCodec),
    "seven levels": (compressors.round_linf(7), LevelsCodec),
    "many levels": (compressors.round_linf(1000), LevelsCodec),
    "qsgd": (compressors.qsgd(5), LevelsCodec),
    "step": (compressors.round_to(0.25), Codec),
    "identity": (compressors.identity(), Codec),
    "bf16": (compressors.bf16(), Codec),
}
FLOATS = st.floats(-1e3, 1e3, width=32)
NUMBERS = st.lists(FLOATS, min_size=3, max_size=3) | st.lists(FLOATS, min_size=17, max_size=17)


def draw(number=0, which=0, simulated=True):
    """The draw of rank 1 of 3 with seed 7."""
    return AgentDraw(7, 1, 3, number, which, simulated)


def drawn(compressor, a):
    """C(a) as the simulator computes it."""
    return draw().compressed(compressor, a)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=10, deadline=None)
@given(numbers=NUMBERS)
@example(numbers=[0.0, 1000.0, 4.5])
def test_what_arrives_is_the_compressed_vector(name, numbers):
    compressor, kind = KINDS[name]
    a = torch.tensor(numbers, dtype=torch.float64)
    if name in ("top-k", "top share"):  # the choice among equals is free
        a = a + torch.arange(len(a)) * 1e-3
    codec = codec_of(compressor, a, simulated=True)
    sent = codec.encode(a, draw())
    assert type(codec) is kind
    assert (sent.dtype, sent.numel()) == (torch.uint8, codec.size)
    arrived, meant = codec.decode(sent), drawn(compressor, a)
    if isinstance(compressor, compressors.RoundLinf):
        # halfway between two levels both are nearest: PyTorch divides by the largest, XLA multiplies by its inverse
        tied = torch.isclose((arrived - a).abs(), (meant - a).abs(), rtol=1e-9, atol=1e-9)
        arrived = torch.where(tied, meant, arrived)
    np.testing.assert_allclose(arrived, meant, rtol=1e-12, atol=1e-12)


def test_a_class_of_ones_own_compresses_as_it_says():
    @gs.pytree
    @dataclass(frozen=True)
    class Halved(compressors.TopK):
        def compress(self, key, a):
            return a / 2

    a = torch.arange(1.0, 4.0, dtype=torch.float64)
    codec = codec_of(Halved(1, None), a, simulated=False)
    np.testing.assert_array_equal(codec.decode(codec.encode(a, draw(simulated=False))), a / 2)


@pytest.mark.parametrize("name", KINDS)
def test_bytes_are_the_bits_of_the_compressor_in_whole_places(name):
    """Top-k sends places of 32 bits, and levels take 1, 2, 4, 8, 16 or 32 bits."""
    compressor, _ = KINDS[name]
    d = 1000
    a = torch.randn(d, dtype=torch.float32, generator=torch.Generator().manual_seed(0))
    size, stated = 8 * codec_of(compressor, a, simulated=False).size, compressor.bits(d, 4)
    if name in ("top-k", "top share"):
        k = 3 if name == "top-k" else 400
        assert size - stated == k * (32 - math.ceil(math.log2(d)))
    elif name == "many levels":
        assert size - stated == d * (16 - 11)
    else:
        assert size == stated


@settings(max_examples=30, deadline=None)
@given(width=st.sampled_from([1, 2, 4]), count=st.integers(1, 30), seed=st.integers(0, 99))
def test_packing_loses_nothing(width, count, seed):
    values = torch.from_numpy(np.random.default_rng(seed).integers(0, 2**width, count))
    sent = pack(values, width)
    assert sent.numel() == math.ceil(count * width / 8)
    assert torch.equal(unpack(sent, width, count).long(), values)


def test_a_zero_vector_stays_zero():
    zero = torch.zeros(5, dtype=torch.float64)
    for compressor in (compressors.round_linf(3), compressors.qsgd(3), compressors.scaled_sign()):
        for simulated in (False, True):
            codec = codec_of(compressor, zero, simulated)
            assert torch.equal(codec.decode(codec.encode(zero, draw(simulated=simulated))).abs(), zero)


@pytest.mark.parametrize(("d", "k"), [(5, 2), (5, 3), (4, 4)])
def test_every_subset_is_as_likely_as_any_other(d, k):
    """A χ² test at about 1e-4 over 4,000 seeds; every choice has k different places."""
    seen = Counter(tuple(subset(seed, d, k).tolist()) for seed in range(4000))
    assert all(len(set(choice)) == k for choice in seen)
    expected = 4000 / math.comb(d, k)
    assert len(seen) == math.comb(d, k)
    assert sum((count - expected) ** 2 / expected for count in seen.values()) < 35


def test_draws_of_torch_are_unbiased_and_differ_by_round_rank_and_vector():
    a = torch.tensor([0.3, -2.0, 0.0, 1.1], dtype=torch.float64)
    for compressor in (compressors.rand_k(1), compressors.qsgd(2)):
        codec = codec_of(compressor, a, simulated=False)
        made = torch.stack([codec.decode(codec.encode(a, draw(number, simulated=False))) for number in range(3000)])
        spread = made.std(0) / math.sqrt(len(made))
        assert (((made.mean(0) - a).abs() <= 4.5 * spread) | (spread == 0)).all()
        variance = float((made - a).square().sum(1).mean() / a.square().sum())
        assert variance <= 1.05 * compressor.errors(4).variance
    assert len({draw(0, 0).seed(), draw(1, 0).seed(), draw(0, 1).seed()}) == 3
