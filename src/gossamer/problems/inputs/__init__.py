"""What the features of a problem are held as: the form that is fastest and smallest, behind one face.

Every form has ``shape``, rows by ``inputs[at]`` and real numbers by ``inputs.astype(dtype)``, as an array has; outside
of compiled programs ``np.asarray(inputs)`` is the dense matrix.
"""

from gossamer.problems.inputs.bits import Bits
from gossamer.problems.inputs.bytes import Bytes
from gossamer.problems.inputs.choose import hold, in_blocks, in_runs, rows_from, sparse_rows
from gossamer.problems.inputs.rows import Rows

__all__ = ["Bits", "Bytes", "Rows", "hold", "in_blocks", "in_runs", "rows_from", "sparse_rows"]
