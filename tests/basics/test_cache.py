"""Compiled programs that outlive a process: what is believed of them, and that they change no number."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.basics import cache
from gossamer.results.study import Study

SPEC = """
[problem]
name = "quadratic"
A = [[2.0, 0.5], [0.5, 1.0]]
b = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [0.5, -1.0]]
[network]
name = "ring"
[run]
steps = 20
[[algorithm]]
name = "biased-dmt"
eta = 0.05
lam = 0.5
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("CACHE_DIR", "MIN_COMPILE_TIME_SECS", "MIN_ENTRY_SIZE_BYTES"):
        prefix = "JAX_COMPILATION_" if name == "CACHE_DIR" else "JAX_PERSISTENT_CACHE_"
        monkeypatch.setenv(prefix + name, "")  # so that what `remember` sets is taken back
    return cache.place()


def entry(folder: Path, name: str, contents: bytes, noted: bytes | None) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{name}-cache"
    path.write_bytes(contents)
    if noted is not None:
        path.with_name(path.name + cache.SEAL).write_text(hashlib.sha256(noted).hexdigest())
    return path


def test_the_place_is_below_the_users_cache_and_names_the_machine(folder, tmp_path):
    assert folder.parent == tmp_path / "gossamer" / "compiled"
    assert folder == cache.place()


def test_only_what_is_as_it_was_noted_stays(folder):
    whole = entry(folder, "whole", b"program", b"program")
    changed = entry(folder, "changed", b"prograM", b"program")
    unknown = entry(folder, "unknown", b"program", None)
    (folder / f"gone-cache{cache.SEAL}").write_text("0")
    assert cache.remember(folder)
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)
    assert sorted(folder.iterdir()) == sorted([whole, whole.with_name(whole.name + cache.SEAL)])
    assert not changed.exists()
    assert not unknown.exists()


def test_what_is_sealed_is_believed_the_next_time(folder):
    assert cache.remember(folder)
    new = entry(folder, "new", b"program", None)
    cache.seal()
    os.environ["JAX_COMPILATION_CACHE_DIR"] = ""
    assert cache.remember(folder)
    assert new.exists()


def test_half_a_stream_of_zlib_is_not_sealed(folder):
    import zlib

    assert cache.remember(folder)
    half = entry(folder, "half", zlib.compress(os.urandom(1000))[:500], None)
    cache.seal()
    assert not half.with_name(half.name + cache.SEAL).exists()


def test_beyond_the_limit_the_oldest_go(folder, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 10)
    for age, name in enumerate(("newest", "middle", "oldest")):
        path = entry(folder, name, b"12345678", b"12345678")
        os.utime(path, (1e9 - age, 1e9 - age))
    assert cache.remember(folder)
    assert sorted(path.name for path in folder.glob("*-cache")) == ["middle-cache", "newest-cache"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners and modes of files")
def test_what_others_may_write_is_not_read(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert not cache.remember(folder)
    assert not os.environ["JAX_COMPILATION_CACHE_DIR"]


def test_a_file_or_a_link_in_its_place_is_not_used(folder, tmp_path):
    folder.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert not cache.remember(folder)
    folder.unlink()
    folder.write_text("")
    assert not cache.remember(folder)


def test_a_directory_that_the_user_gave_jax_goes_before_ours(folder, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/elsewhere")
    assert not cache.remember(folder)
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "/elsewhere"


def run(out: Path, home: Path, *options: str) -> bytes:
    """The models that a run of the command line ends with."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    spec = out.with_suffix(".toml")
    spec.write_text(SPEC)
    command = [sys.executable, "-m", "gossamer", "run", str(spec), "--out", str(out), *options]
    subprocess.run(command, env=environment | {"XDG_CACHE_HOME": str(home)}, check=True, capture_output=True)
    states = Study.load(out).results[""].states
    return b"".join(models.tobytes() for models in states.values())


def test_runs_from_kept_programs_are_the_same_to_the_bit_and_damage_is_mended(tmp_path):
    home = tmp_path / "cache"
    first = run(tmp_path / "first", home)
    entries = {path.name: path.read_bytes() for path in home.rglob("*-cache")}
    assert any(name.startswith("jit__advance") for name in entries)
    assert run(tmp_path / "second", home) == first
    assert {path.name: path.read_bytes() for path in home.rglob("*-cache")} == entries
    (program,) = home.rglob("jit__advance*-cache")
    contents = program.read_bytes()
    program.write_bytes(contents[:1000] + bytes(1000) + contents[2000:])
    assert run(tmp_path / "third", home) == first
    assert as_noted(program)


def as_noted(program: Path) -> bool:
    """Whether a program has the digest that was noted of it."""
    noted = program.with_name(program.name + cache.SEAL).read_text()
    return noted == hashlib.sha256(program.read_bytes()).hexdigest()


def test_no_cache_leaves_nothing(tmp_path):
    run(tmp_path / "out", tmp_path / "cache", "--no-cache")
    assert not (tmp_path / "cache").exists()
