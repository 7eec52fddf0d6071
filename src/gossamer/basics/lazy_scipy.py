"""Parts of SciPy that take a tenth of a second to import, each imported when something of it is first used."""

from typing import TYPE_CHECKING

from gossamer.basics.lazy import Lazy

if TYPE_CHECKING:
    from scipy import special
    from scipy.sparse import csgraph
    from scipy.sparse import linalg as sparse_linalg
else:
    special = Lazy("scipy.special")
    csgraph, sparse_linalg = Lazy("scipy.sparse.csgraph"), Lazy("scipy.sparse.linalg")

__all__ = ["csgraph", "sparse_linalg", "special"]
