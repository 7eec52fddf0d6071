"""Where a result came from: versions, machine, and the state of the source tree."""

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax


@cache
def versions() -> dict[str, str]:
    """The versions of all that can change a number."""
    packages = {name: version(name) for name in ("gossamer", "jax", "jaxlib", "numpy")}
    return {**packages, "python": platform.python_version(), "source": _source()}


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
    here = Path(__file__).resolve().parent
    if not (here.parents[1] / ".git").exists():
        return "installed"
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(where), *arguments], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
