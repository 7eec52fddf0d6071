"""Atomic writes and checksummed reads."""

import fcntl
import os
import signal
import subprocess
import sys

import pytest

from gossamer.basics.files import Damaged, OtherFormat, atomic, checksum, exclusive, read, seal, sweep, unseal, write
from tests.table import table

WRITER = (
    "import sys, signal; from pathlib import Path; from gossamer.basics.files import atomic\n"
    "with atomic(Path(sys.argv[1])) as part:\n"
    "    part.write_bytes(b'half'); print(part, flush=True); signal.pause()"
)


def parts(folder):
    return sorted(path.name for path in folder.rglob(".*.part"))


def test_what_fails_leaves_the_old_file_and_no_part(tmp_path):
    path = tmp_path / "a.txt"
    write(path, b"old")

    def fail():
        with atomic(path) as part:
            part.write_bytes(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old"
    assert parts(tmp_path) == []


def test_a_file_that_holds_the_bytes_is_not_touched(tmp_path):
    path = tmp_path / "a.txt"
    write(path, b"same")
    os.utime(path, ns=(1, 1))
    os.utime(tmp_path, ns=(1, 1))
    assert write(path, b"same") == checksum(b"same")
    assert (path.stat().st_mtime_ns, tmp_path.stat().st_mtime_ns) == (1, 1)
    write(path, b"diff")
    assert path.read_bytes() == b"diff"


def test_leftovers_go_whatever_process_has_their_number_now(tmp_path):
    """One of a killed process, one with the number of this one, one of an older version, and a directory."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "x")], stdout=subprocess.PIPE, text=True)
    part = writer.stdout.readline().strip()
    sweep(tmp_path)
    assert parts(tmp_path) == [os.path.basename(part)]  # it lives
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    (tmp_path / f".y.{os.getpid()}-00000000.part").touch()
    (tmp_path / ".z.1.part").touch()
    (tmp_path / ".run.7-00000000.part").mkdir()
    (tmp_path / ".run.7-00000000.part" / "arrays.npz").touch()
    sweep(tmp_path)
    assert parts(tmp_path) == []


@pytest.mark.parametrize("folder", [False, True])
def test_what_this_process_writes_is_never_swept(tmp_path, folder):
    with atomic(tmp_path / "x", folder=folder) as part:
        if not folder:
            part.write_bytes(b"whole")  # opens it anew, and it stays locked
        sweep(tmp_path)
        assert part.exists()
    assert (tmp_path / "x").exists()


def test_a_part_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    real, swept = fcntl.flock, []

    def late(lock, how):
        if not swept and how == fcntl.LOCK_EX:
            swept.append(parts(tmp_path))
            sweep(tmp_path)
        real(lock, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with atomic(tmp_path / "x") as part:
        part.write_bytes(b"whole")
    assert len(swept[0]) == 1
    assert (tmp_path / "x").read_bytes() == b"whole"


def test_a_file_system_without_locks_still_takes_files(tmp_path, monkeypatch):
    def none(lock, how):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", none)
    with exclusive(tmp_path), atomic(tmp_path / "x") as part:
        part.write_bytes(b"whole")
        sweep(tmp_path)
    assert (tmp_path / "x").read_bytes() == b"whole"


@table(
    "data",
    [b"", b"[]", b"3", b"\xff\xfe", b"{", b'{"format": 3}', b"[" * 100_000, b'{"format": 3, "sha256": ["a"]}', b"null"],
)
def test_what_is_no_record_is_said(data):
    with pytest.raises(Damaged):
        unseal("it", data)


@table("number", [1, 2, None, "3", True])
def test_another_format_is_refused(number):
    with pytest.raises(OtherFormat, match=r"it is of format .*; this version reads format 3"):
        unseal("it", seal({"format": number}))


def test_a_file_is_read_only_as_it_was_marked(tmp_path):
    marked = write(tmp_path / "a", b"abc")
    assert read(tmp_path / "a", marked) == b"abc"
    (tmp_path / "a").write_bytes(b"abd")
    with pytest.raises(Damaged, match="a does not match its checksum"):
        read(tmp_path / "a", marked)
    (tmp_path / "a").write_bytes(b"abcd")
    with pytest.raises(Damaged, match=r"a does not match its checksum \(4 bytes, but 3 were written\)"):
        read(tmp_path / "a", marked)
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "f")
    for name, what in {"d": "not a file", "f": "not a file", "n": "missing"}.items():
        with pytest.raises(Damaged, match=f"{name} is {what}"):
            read(tmp_path / name, marked)
