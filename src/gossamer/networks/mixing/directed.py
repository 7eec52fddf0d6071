r"""Two matrices, one for each direction: $R$ and $C$ of a directed network."""

import dataclasses
import functools
from typing import Any, ClassVar

import scipy.sparse as sp
from jaxtyping import Float

from gossamer.basics.lazy_jax import Array
from gossamer.networks.mixing.mixer import MatrixName, Mixer, mixer


@mixer("row", "column")
@dataclasses.dataclass(frozen=True, eq=False)
class Directed(Mixer):
    """Two matrices on the same links: R with rows that sum to 1, and C with columns that do."""

    kind: ClassVar[str] = "directed"
    row: Mixer
    column: Mixer

    def mix(self, x: Float[Array, "agents ..."], t: Any = 0, over: MatrixName = "R") -> Float[Array, "agents ..."]:
        return self.part(over).mix(x)

    def sparse(self, t: int = 0, over: MatrixName = "R") -> sp.csr_array:
        return self.part(over).sparse()

    def part(self, over: MatrixName) -> Mixer:
        """The matrix of this direction."""
        return self.column if over == "C" else self.row

    @property
    def doubly(self) -> bool:
        return False

    @functools.cached_property
    def balanced(self) -> bool:
        return False
