"""Matrices in files: CSV, NumPy's .npy, SciPy's sparse .npz, and Matrix Market's .mtx."""

import io
import math
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from gossamer.basics.sparse import checked
from gossamer.core import InputError
from gossamer.networks.files.text import decoded

LARGEST_EXPANDED = 2e9
"""Bytes to which a compressed .npz may expand."""

DAMAGED = (
    *(ValueError, EOFError, OSError, KeyError, TypeError, IndexError, OverflowError),
    *(AttributeError, NotImplementedError, RuntimeError, SyntaxError, StopIteration),
)
"""What the readers of NumPy and SciPy raise for files that are none of theirs."""


def read_csv(content: bytes) -> np.ndarray:
    """One row a line, numbers separated by commas; what follows # is a comment."""
    text = decoded(content)
    if not any(line.split("#", 1)[0].strip() for line in text.splitlines()):
        raise InputError("there are no numbers in the file.")
    try:
        return np.loadtxt(io.StringIO(text), delimiter=",", comments="#", ndmin=2)
    except ValueError as error:
        _raise_fault(text)
        raise InputError(f"this is not a matrix: {str(error).splitlines()[0]}.") from None


def _raise_fault(text: str) -> None:
    """Raise for the first line that is wrong; the fast reader counts rows, not lines."""
    width = None
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.split("#", 1)[0].split(",")]
        if cells == [""]:
            continue
        for cell in cells:
            try:
                float(cell)
            except ValueError:
                raise InputError(f"line {number}: {cell[:40]!r} is not a number.") from None
        width = width or len(cells)
        if len(cells) != width:
            raise InputError(f"line {number}: there are {len(cells)} numbers, but {width} in the lines before.")


def read_npy(content: bytes) -> np.ndarray:
    """An array as `numpy.save` writes it; objects, which would be unpickled, are refused."""
    try:
        _check_length(content)
        return np.load(io.BytesIO(content), allow_pickle=False)
    except DAMAGED as error:
        raise InputError(f"this is not an array of NumPy: {(str(error) or 'damaged').splitlines()[0]}.") from None


def _check_length(content: bytes) -> None:
    """Refuse an array that declares another length than its bytes have, before room is made for it."""
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its version is {version}, but 1.0 and 2.0 are read")
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = header(stream)
    declared, there = math.prod(shape) * dtype.itemsize, len(content) - stream.tell()
    if not dtype.hasobject and declared != there:
        raise ValueError(f"it declares {declared:,} bytes, but has {there:,}")


def read_npz(content: bytes) -> sp.csr_array:
    """A sparse matrix as `scipy.sparse.save_npz` writes it."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            expanded = sum(member.file_size for member in members)
            if expanded > LARGEST_EXPANDED:
                raise InputError(f"it expands to {expanded:,} bytes, but at most {LARGEST_EXPANDED:,.0f} are read.")
            for member in members:
                with archive.open(member) as stream:
                    _check_length(stream.read(member.file_size + 1))
        matrix: Any = sp.load_npz(io.BytesIO(content))
        _check_rows(matrix.shape[0], matrix.nnz)
        return checked(matrix, "the mixing matrix")
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, *DAMAGED) as error:
        reason = (str(error) or "it is damaged").splitlines()[0]
        raise InputError(f"this is not a sparse matrix of scipy.sparse.save_npz: {reason}.") from None


def _check_rows(rows: int, entries: int) -> None:
    """Refuse a header with more rows than there are entries, before room is made for them."""
    if rows > entries:
        raise InputError(
            f"{rows:,} rows have {entries:,} entries in all, so that the weights of some agents are missing."
        )


def read_mtx(content: bytes) -> Any:
    """A matrix in the format of Matrix Market, real or integer, or the pattern of one."""
    from scipy.io import mminfo, mmread  # only when needed

    try:
        rows, _, entries, _, field, _ = mminfo(io.BytesIO(content))
        # an entry takes two bytes at least, and where the matrix is symmetric it stands for two
        if entries > len(content):
            raise InputError(f"the header declares {entries:,} entries, more than {len(content):,} bytes can hold.")
        _check_rows(rows, 2 * entries)
        if field == "complex":
            raise InputError("the matrix is complex, but mixing weights are real.")
        matrix: Any = mmread(io.BytesIO(content))
        return sp.csr_array(matrix) if sp.issparse(matrix) else matrix
    except InputError:
        raise
    except DAMAGED as error:
        raise InputError(f"this is not Matrix Market: {' '.join(str(error).split()) or 'damaged'}.") from None


READERS: dict[str, Callable[[bytes], Any]] = {".csv": read_csv, ".npy": read_npy, ".npz": read_npz, ".mtx": read_mtx}
"""What reads a matrix, by the ending of its file."""
