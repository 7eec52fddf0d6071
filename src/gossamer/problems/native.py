"""Kernels for the products of sparse rows, written in C++ (kernels.cc) and called by XLA through `jax.ffi`.

They are compiled on first use where this machine has a C++ compiler, and kept in the user's cache directory. Elsewhere,
on other devices than the CPU and with GOSSAMER_NATIVE=0 in the environment, XLA computes the same products.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import threading
import warnings
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import jax

from gossamer.basics import cache

SWITCH = "GOSSAMER_NATIVE"
SOURCE = Path(__file__).with_name("kernels.cc")

# No fused multiply-add: with it, the bits of a result would depend on the processor.
OPTIONS = ("-std=c++17", "-O3", "-funroll-loops", "-march=native", "-ffp-contract=off", "-DNDEBUG", "-shared", "-fPIC")

TYPES = {"float32": "float", "float64": "double"} | {
    f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""C++ types by the names of dtypes."""

LOCK = threading.RLock()
"""A kernel must not be compiled or registered twice, however many threads ask for it at the same time: what is cached
below is only reached while this is held."""


@functools.cache
def likely() -> bool:
    """Return True if kernels will probably be used, without starting JAX. The form of features depends on it."""
    # other devices come with a plugin of JAX
    return os.environ.get(SWITCH) != "0" and _compiler() is not None and not entry_points(group="jax_plugins")


def ready() -> bool:
    """Return True if kernels are used on the CPU in this process. The first call compiles one, to see that it can."""
    with LOCK:
        return _ready()


@functools.cache
def _ready() -> bool:
    if os.environ.get(SWITCH) == "0" or _compiler() is None:
        return False
    try:
        _library("float32", "uint8", None)
    except Exception as error:  # XLA computes the same, whatever is wrong with a compiler or a cache
        warnings.warn(
            f"native kernels are not used, so that sparse products are slower: {type(error).__name__}: {error}. "
            f"{SWITCH}=0 in the environment turns them off without a warning.",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True


def kernels() -> str:
    """Return the name of the kernels that compute products of sparse rows, for the cache key of a run."""
    return f"c++ {_digest()}" if ready() else "xla"


def lowering(name: str, number: str, column: str, value: str | None) -> Any:
    """Return JAX's rule that puts the kernel for these dtypes into a program, or None if none is used."""
    if not ready() or number not in ("float32", "float64") or column not in TYPES or (value or number) not in TYPES:
        return None
    with LOCK:
        return jax.ffi.ffi_lowering(_target(name, number, column, value))


@functools.cache
def _target(name: str, number: str, column: str, value: str | None) -> str:
    """Return the name under which XLA knows a kernel for these dtypes. The first call compiles and registers it."""
    registered = f"gossamer_rows_{name}_{number}_{column}_{value or 'ones'}"
    handler = getattr(_library(number, column, value), f"gossamer_rows_{name}")
    jax.ffi.register_ffi_target(registered, jax.ffi.pycapsule(handler), platform="cpu")
    return registered


@functools.cache
def _library(number: str, column: str, value: str | None) -> ctypes.CDLL:
    """Return the compiled kernels for these dtypes, from the cache if they are there."""
    file = cache.place() / f"rows-{number}-{column}-{value or 'ones'}-{_digest()}.so"
    if not cache.is_private(file.parent):
        raise OSError(f"{file.parent} cannot be written, or others can write into it")
    with suppress(OSError):  # not there, or damaged: compile
        return ctypes.CDLL(str(file))
    part = file.with_name(f"{file.name}.{os.getpid()}")
    # C++ is told the types as it compiles, so there is a library for each of their combinations
    types = {"NUMBER": TYPES[number], "COLUMN": TYPES[column], "VALUE": TYPES[value] if value else "Ones"}
    defined = [f"-DGOSSAMER_{key}={name}" for key, name in types.items()]
    command = [_compiler(), *OPTIONS, *defined, f"-I{jax.ffi.include_dir()}", str(SOURCE), "-o", str(part)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode:
            wrong = [line for line in done.stderr.splitlines() if "error" in line] or [f"code {done.returncode}"]
            raise OSError(f"{command[0]} failed: {wrong[0]}")
        part.replace(file)  # at once, so that no process ever loads half a file
    finally:
        part.unlink(missing_ok=True)
    return ctypes.CDLL(str(file))


@functools.cache
def _compiler() -> str | None:
    """Return the path of a C++ compiler, if there is one: the one that CXX names before others."""
    names = [name for name in (os.environ.get("CXX"), "c++", "g++", "clang++") if name]
    return next(filter(None, map(shutil.which, names)), None)


@functools.cache
def _digest() -> str:
    """Return a digest of the source and its compiler. `cache.place` has those of jaxlib and the processor."""
    version = subprocess.run([str(_compiler()), "--version"], capture_output=True).stdout
    return hashlib.sha256(b"\0".join([SOURCE.read_bytes(), " ".join(OPTIONS).encode(), version])).hexdigest()[:16]
