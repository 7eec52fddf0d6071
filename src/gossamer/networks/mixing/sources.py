"""Where the draws of a round come from: JAX inside a compiled program, or NumPy on the host, with the same bits.

A process that trains asks for one matrix a round, on the host: it shall not import JAX for that. What NumPy does here
is what JAX's functions of the same names do with the words of the same cipher.
"""

import math
from typing import Any, Protocol

import numpy as np

from gossamer.basics.cipher import NETWORK, encrypted
from gossamer.basics.lazy_jax import is_array, jax, jnp


class Source(Protocol):
    """Draws, and what of an array library differs between the two."""

    np: Any
    """NumPy, or JAX's."""

    def key(self, seed: Any, t: Any) -> Any:
        """The key of all that is drawn in round t."""
        ...

    def folded(self, key: Any, number: int) -> Any:
        """The key of this number below another one."""
        ...

    def split(self, key: Any) -> Any:
        """Two keys."""
        ...

    def permutation(self, key: Any, a: Any) -> Any:
        """A row in random order."""
        ...

    def uniform(self, key: Any, shape: tuple[int, ...]) -> Any:
        """Numbers in [0, 1), in float32."""
        ...

    def between(self, key: Any, low: int, high: int) -> Any:
        """A whole number from `low` to `high` − 1."""
        ...

    def words(self, key: Any, numbers: Any) -> Any:
        """A word of 32 bits for each number."""
        ...

    def put(self, a: Any, places: Any, values: Any) -> Any:
        """The array with other values at these places."""
        ...

    def add(self, a: Any, places: Any, values: Any) -> Any:
        """The array with values added at these places, of which some may be the same."""
        ...


class Program:
    """Draws by JAX."""

    @property
    def np(self) -> Any:
        return jnp

    def key(self, seed: Any, t: Any) -> Any:
        from gossamer.basics.keys import root  # JAX

        return jax.random.fold_in(root(NETWORK, seed), t)

    def folded(self, key: Any, number: int) -> Any:
        return jax.random.fold_in(key, number)

    def split(self, key: Any) -> Any:
        return jax.random.split(key)

    def permutation(self, key: Any, a: Any) -> Any:
        return jax.random.permutation(key, a)

    def uniform(self, key: Any, shape: tuple[int, ...]) -> Any:
        return jax.random.uniform(key, shape, jnp.float32)

    def between(self, key: Any, low: int, high: int) -> Any:
        return jax.random.randint(key, (), low, high, jnp.int32)

    def words(self, key: Any, numbers: Any) -> Any:
        folded = jax.vmap(lambda number: jax.random.key_data(jax.random.fold_in(key, number))[0])
        return folded(numbers.ravel()).reshape(numbers.shape)

    def put(self, a: Any, places: Any, values: Any) -> Any:
        return a.at[places].set(values)

    def add(self, a: Any, places: Any, values: Any) -> Any:
        return a.at[places].add(values)


Words = tuple[np.ndarray, np.ndarray]
"""A key: two words, each in an array of one, since words of their own would warn where they overflow."""

NONE = np.zeros(1, np.uint32)


class Host:
    """Draws by NumPy."""

    np = np

    def key(self, seed: Any, t: Any) -> Words:
        return self.folded((NONE + np.uint32(NETWORK), np.asarray(seed, np.uint32).reshape(1)), int(t))

    def folded(self, key: Words, number: int) -> Words:
        return encrypted(key, NONE, np.array([number], np.uint32))

    def split(self, key: Words) -> tuple[Words, Words]:
        a, b = encrypted(key, NONE, np.arange(2, dtype=np.uint32))
        return (a[:1], b[:1]), (a[1:], b[1:])

    def permutation(self, key: Words, a: np.ndarray) -> np.ndarray:
        # sorted by random words, and so often that hardly two of a large row ever share all of theirs
        for _ in range(math.ceil(3 * np.log(max(1, a.size)) / np.log(2**32 - 1))):
            key, other = self.split(key)
            a = a[np.argsort(self._bits(other, a.shape), kind="stable")]
        return a

    def uniform(self, key: Words, shape: tuple[int, ...]) -> np.ndarray:
        mantissas = self._bits(key, shape) >> np.uint32(9)
        return (mantissas | np.float32(1).view(np.uint32)).view(np.float32) - np.float32(1)

    def between(self, key: Words, low: int, high: int) -> np.int32:
        # 64 random bits modulo the span, in words of 32 bits
        above, below = (int(self._bits(part, (1,))[0]) for part in self.split(key))
        span = max(high - low, 1)
        factor = (2**16 % span) ** 2 % 2**32 % span
        return np.int32(low + (above % span * factor % 2**32 + below % span) % 2**32 % span)

    def words(self, key: Words, numbers: np.ndarray) -> np.ndarray:
        return encrypted(key, NONE, numbers.ravel())[0].reshape(numbers.shape)

    def put(self, a: np.ndarray, places: Any, values: Any) -> np.ndarray:
        made = a.copy()
        made[places] = values
        return made

    def add(self, a: np.ndarray, places: Any, values: Any) -> np.ndarray:
        made = a.copy()
        np.add.at(made, places, values)
        return made

    def _bits(self, key: Words, shape: tuple[int, ...]) -> np.ndarray:
        a, b = encrypted(key, NONE, np.arange(math.prod(shape), dtype=np.uint32))
        return (a ^ b).reshape(shape)


PROGRAM, HOST = Program(), Host()


def source_for(*given: Any) -> Source:
    """By JAX where something given is JAX's, as all is inside a compiled program."""
    return PROGRAM if any(map(is_array, given)) else HOST
