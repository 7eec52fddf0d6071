r"""What every mixer can do: multiply by the matrix of a round, $x \leftarrow W^t x$, and tell what that matrix is."""

import abc
import functools
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float

from gossamer.basics.lazy_jax import Array
from gossamer.basics.pytrees import pytree
from gossamer.networks.spectrum import size

MatrixName = Literal["W", "R", "C"]
"""Which weights: W doubly stochastic, R row-stochastic (an agent pulls), C column-stochastic (an agent pushes)."""

M = TypeVar("M", bound=type)


def mixer(*leaves: str):
    """Make a frozen dataclass a pytree with these fields as leaves and the others static."""

    def make(cls: M) -> M:
        return pytree(cls, leaves)

    return make


class Mixer(abc.ABC):
    """The weights of all rounds. What is not overridden holds for one doubly stochastic W, the same in every round."""

    kind: ClassVar[str]
    changes: ClassVar[bool] = False

    @abc.abstractmethod
    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "W") -> Float[Array, "agents ..."]:
        """The product of the matrix of round t with x, in the dtype of x."""

    @abc.abstractmethod
    def sparse(self, t: int = 0, over: MatrixName = "W") -> sp.csr_array:
        """The matrix of round t, on the host in float64."""

    def awake(self, t: Any) -> Bool[Array | np.ndarray, " agents"] | None:
        """Who is awake in round t; None where nobody ever sleeps."""
        return None

    def union(self) -> sp.csr_array | None:
        """A matrix with the links of all rounds; None stands for all pairs."""
        return self.sparse()

    def sends(self, t: int) -> float:
        """How many others an agent sends to in round t: the mean over agents, expected where rounds are drawn."""
        matrix = self.sparse()
        return (matrix.nnz - np.count_nonzero(matrix.diagonal())) / size(matrix)

    @property
    def traffic(self) -> float:
        """`sends`, the mean over all rounds."""
        return self.sends(0)

    @property
    def pace(self) -> float:
        """The share of rounds in which there is gossip at all."""
        return float(self.sends(0) > 0)

    def slower(self, k: int) -> "Mixer":
        """The same with a schedule, if it has one, that takes a step only in every k-th round."""
        return self

    @property
    def doubly(self) -> bool:
        """Whether every round is doubly stochastic."""
        return True

    @property
    def random(self) -> bool:
        """Whether rounds are drawn."""
        return False

    @property
    def period(self) -> int:
        """After how many rounds the matrices repeat; where they are drawn, their distributions do."""
        return 1

    @property
    def activity(self) -> float:
        """The share of rounds in which an agent is awake."""
        return 1.0

    @functools.cached_property
    def balanced(self) -> bool:
        """Whether the W of every round is symmetric, to rounding."""
        matrix = self.sparse()
        return bool(abs(matrix - matrix.T).max() <= 1e-12)
