"""Where a result came from: versions, machine, and the state of the source tree."""

import hashlib
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from gossamer.core import InputError

HERE = Path(__file__).resolve().parents[1]

OUTSIDE = (
    *("cli", "report", "paper", "torch", "theory", "__main__.py", "specs/catalogue.py"),
    *("results/summary.py", "results/result.py", "results/records.py", "results/study.py"),
    *("results/showing.py", "results/settings.py", "results/concat.py", "results/comparison.py"),
    *("experiments/tuning.py", "experiments/audit.py", "experiments/tuned_spec.py"),
    *("specs/starting.py", "results/privacy.py"),
)
"""What reads runs, chooses them or shows them, and cannot change one. Everything else of ours counts."""


def _hashed(folder: Path) -> str | None:
    """The hash of all source that can decide a number; None where there is no source."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    left_out = (*OUTSIDE, "examples")  # which lie in an installed package only
    counted = [name for name in names if name not in left_out and name.split("/")[0] not in left_out]
    made = hashlib.sha256()
    for name in counted:
        data = (folder / name).read_bytes()
        made.update(f"{name} {len(data)}\n".encode() + data)
    return made.hexdigest() if "core/__init__.py" in counted else None


_CODE = _hashed(HERE)  # now: a file that is edited later is not what this process runs


def code() -> str:
    """The fingerprint of our own code: the bytes of every module but those that read, choose or show runs."""
    if _CODE is None:
        raise InputError(f"the source of Gossamer is not at {HERE}, so that nothing can tell whether it changed.")
    return _CODE


@cache
def versions() -> dict[str, str]:
    """The versions of all that can change a number."""
    packages = {name: version(name) for name in ("gossamer", "jax", "jaxlib", "numpy")}
    return {**packages, "python": platform.python_version(), "source": _source(), "code": code()[:16]}


@cache
def machine() -> dict[str, Any]:
    """The device that JAX computes on, and the CPU."""
    device = jax.devices()[0]
    return {"device": f"{device.platform}: {device.device_kind}", "cpu": _cpu(), "system": platform.platform()}


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _source() -> str:
    """The commit of the source tree that the package was imported from, with + if it was changed; else "installed"."""
    if not (HERE.parents[1] / ".git").exists():
        return "installed"
    try:
        commit = _git(HERE, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(HERE, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(where), *arguments], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
