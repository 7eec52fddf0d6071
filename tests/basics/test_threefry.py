"""Threefry written out gives the numbers of JAX's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.basics.cipher import encrypt
from gossamer.basics.keys import THREEFRY, draw_once, root

WORDS = st.integers(0, 2**32 - 1)

DRAWS = {
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 7)),
    "split": lambda key: jax.random.key_data(jax.random.split(key, 5)),
    "split in two dimensions": lambda key: jax.random.key_data(jax.random.split(key, (3, 2))),
    "words": lambda key: jax.random.bits(key, (3, 5), jnp.uint32),
    "bytes": lambda key: jax.random.bits(key, (33,), jnp.uint8),
    # in 64 bits where they are enabled, else in 32
    "wide words": lambda key: jax.random.bits(key, (6,), jax.dtypes.canonicalize_dtype(jnp.uint64)),
    "halves": lambda key: jax.random.bits(key, (7,), jnp.uint16),
    "one": lambda key: jax.random.bits(key),
    "none": lambda key: jax.random.normal(key, (0,)),
    "normal": lambda key: jax.random.normal(key, (123,)),
    "integers": lambda key: jax.random.randint(key, (9,), 0, 1000),
    "permutation": lambda key: jax.random.permutation(key, 50),
    "signs": lambda key: jax.random.rademacher(key, (21,)),
}


def test_the_published_vectors():
    # the known answers of the reference implementation, Random123's kat_vectors: all zeros, all ones, and digits of pi
    known = {
        (0, 0, 0, 0): (0x6B200159, 0x99BA4EFE),
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF): (0x1CB996FC, 0xBB002BE7),
        (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3): (0xC4923A9C, 0x483DF7A0),
    }
    for (*key, high, low), block in known.items():
        words = encrypt(jnp.array(key, jnp.uint32), jnp.uint32(high), jnp.uint32(low))
        assert tuple(int(word) for word in words) == block


@jax.jit
def both(words):
    """Make all draws from a key of ours and from one of JAX's, in one program: most of the time is compilation."""
    ours, theirs = (jax.random.wrap_key_data(words, impl=impl) for impl in (THREEFRY, "threefry2x32"))
    return {name: (draw(ours), draw(theirs)) for name, draw in DRAWS.items()}


@pytest.mark.parametrize("x64", [False, True])
@settings(max_examples=5, deadline=None, derandomize=True)
@given(domain=WORDS, seed=WORDS)
def test_draws_are_those_of_jax(x64, domain, seed):
    with jax.enable_x64(x64):
        drawn = both(jnp.array([domain, seed], jnp.uint32))
    for name, (ours, theirs) in drawn.items():
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


@given(seed=WORDS)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_a_run_has_the_key_of_its_seed(seed):
    word = np.uint32(seed)
    np.testing.assert_array_equal(jax.random.key_data(root(0, word)), jax.random.key_data(jax.random.key(word)))


def test_maps_over_keys_draw_what_each_key_draws():
    keys = jax.random.split(root(0, 5), 4)
    together = jax.vmap(lambda key: jax.random.normal(key, (6,)))(keys)
    np.testing.assert_array_equal(together, jnp.stack([jax.random.normal(key, (6,)) for key in keys]))


def test_what_is_kept_is_what_was_drawn():
    def draw(key):
        return jax.random.bits(key, (4,)), jax.random.normal(key, (2, 3))

    keys = jax.random.split(root(0, 1), 3)
    plain = jax.vmap(draw)(keys)
    made_once = jax.jit(lambda t: jax.vmap(lambda key: draw_once(t, lambda: draw(key)))(keys))(jnp.int32(0))
    jax.tree.map(np.testing.assert_array_equal, made_once, plain)
