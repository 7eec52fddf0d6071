"""Arrays in one file: what `numpy.load` reads, but the same bytes for the same arrays, and nothing unpacked unseen."""

import io
import math
from collections.abc import Mapping
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy

from gossamer.results.files import Damaged


def packed(arrays: Mapping[str, Any]) -> bytes:
    """The bytes of an .npz file, without compression and without the time at which it was made."""
    made = io.BytesIO()
    with ZipFile(made, "w", ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            npy.write_array(member, np.asanyarray(array), allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy"), member.getvalue())
    return made.getvalue()


def unpacked(name: str, data: bytes) -> dict[str, np.ndarray]:
    """The arrays that `packed` wrote. No array is longer than its bytes in the file, whatever it declares."""
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if any(
                member.compress_type != ZIP_STORED or member.file_size != member.compress_size for member in members
            ):
                raise Damaged(f"{name} is compressed, which no file of ours is")
            if sum(member.file_size for member in members) > len(data):
                raise Damaged(f"{name} declares more than its {len(data):,} bytes hold")
            return {member.filename.removesuffix(".npy"): _array(name, archive.read(member)) for member in members}
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError, OverflowError, SyntaxError) as error:
        raise Damaged(f"{name} holds no arrays: {error}") from error


def _array(name: str, data: bytes) -> np.ndarray:
    file = io.BytesIO(data)
    version = npy.read_magic(file)
    if version != (1, 0):
        raise Damaged(f"{name} holds an array of version {version}, which is not ours")
    shape, fortran, dtype = npy.read_array_header_1_0(file)
    if dtype.hasobject:
        raise Damaged(f"{name} holds an array of objects, which are not read")
    size, there = math.prod(shape) * dtype.itemsize, len(data) - file.tell()
    if size != there or not dtype.itemsize or min(shape, default=0) < 0:
        raise Damaged(f"{name} holds an array that declares {size:,} bytes, but has {there:,}")
    array = np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order="F" if fortran else "C")
    return array.copy()
