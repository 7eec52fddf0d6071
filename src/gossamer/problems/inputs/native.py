"""Whether the products of sparse rows are computed by kernels of our own, which Numba compiles, or by XLA.

They are where numba is installed (``pip install gossamer[native]``), unless the environment has GOSSAMER_NATIVE=0. They
are tried first, on small products whose answers are known; where anything is wrong XLA computes, and that is said.
"""

import functools
import os
import re
import warnings
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gossamer.basics.once import once

SWITCH = "GOSSAMER_NATIVE"
VERSION = (0, 3)
"""Of XLA's foreign function interface, whose frames the kernels read."""


@functools.cache
def likely() -> bool:
    """Whether our kernels will compute, as far as is seen before JAX starts: the form of features goes by it."""
    if os.environ.get(SWITCH) == "0" or find_spec("numba") is None:
        return False
    return not entry_points(group="jax_plugins")  # on another device than the CPU, XLA computes


@once
def ready() -> bool:
    """Whether our kernels compute on the CPU in this process: decided once, by a trial."""
    if os.environ.get(SWITCH) == "0" or find_spec("numba") is None:
        return False
    try:
        wrong = _version() or _trial()
    except Exception as error:  # whatever goes wrong there, XLA computes the same
        first = (str(error).strip().splitlines() or [""])[0]
        wrong = f"{type(error).__name__}: {first}"
    if wrong:
        warnings.warn(
            f"kernels by Numba are not used, so that sparse products are slower: {wrong}. {SWITCH}=0 in the "
            "environment leaves them out without a word.",
            RuntimeWarning,
            stacklevel=2,
        )
    return not wrong


def kernels() -> str:
    """What computes products of sparse rows, with its version."""
    return f"numba {version('numba')}" if ready() else "xla"


def lowering(name: str, given: Any, at: Any, columns: Any, *rest: Any, cut: bool, valued: bool) -> Any:
    """How JAX puts our kernel for arguments of these types into a program."""
    from gossamer.problems.inputs.kernels import target

    values = rest[0].dtype.name if valued else None
    return jax.ffi.ffi_lowering(target(name, given.dtype.name, columns.dtype.name, values, cut))


def _version() -> str:
    """What is wrong with the version of XLA's interface, if anything."""
    header = (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()
    found = tuple(int(re.findall(rf"#define XLA_FFI_API_{part} (\d+)", header)[0]) for part in ("MAJOR", "MINOR"))
    return "" if found == VERSION else f"XLA's interface has version {found}, and they are for {VERSION}"


def _trial() -> str:
    """What is wrong with small products, if anything: of ones and of values, of short rows and of long ones."""
    from gossamer.problems.inputs.kernels import target

    draw = np.random.default_rng(0)
    agents, batch, d, h = 2, 3, 9, 2
    columns = np.array([[0, 3, 9, 9], [1, 2, 5, 8], [4, 9, 9, 9], [0, 6, 7, 9], [9, 9, 9, 9]])
    after, more, at = np.array([0, 3, 0]), np.array([0, 1, 0]), draw.integers(0, 3, (agents, batch))
    for dtype, index, cut in (("float32", "uint8", False), ("float64", "uint16", True)):
        x, w = draw.normal(size=(agents, d, h)).astype(dtype), draw.normal(size=(agents, batch, h)).astype(dtype)
        values = draw.normal(size=columns.shape).astype(dtype) if cut else None
        dense = np.zeros((5, d + 1))
        np.add.at(dense, (np.arange(5)[:, None], columns), 1 if values is None else values)
        dense[1] += dense[3] if cut else 0
        rows = dense[at][..., :d]
        others = [] if values is None else [values, *(part.astype(np.int32) for part in (after, more, np.array([1])))]
        for name, given, expected in (("dot", x, rows @ x), ("add", w, rows.swapaxes(1, 2) @ w)):
            asked = given, at.astype(np.int32), columns.astype(index), *others
            with jax.enable_x64(True):
                call = jax.ffi.ffi_call(
                    target(name, dtype, index, dtype if cut else None, cut), jax.ShapeDtypeStruct(expected.shape, dtype)
                )
                made = np.asarray(jax.jit(call)(*asked))
            apart = float(np.abs(made - expected).max())
            if not apart <= 100 * np.finfo(dtype).eps:
                return f"on trial, {name} in {dtype} is off by {apart:.3g}"
    return ""
