"""Files of checkpoints: a line with the format and a checksum, and then what PyTorch writes.

    gossamer checkpoint 0002 <SHA-256 of all that stands before and after it>\\n<torch.save>

Every later format keeps this line, so that a file from the future is told from one that is damaged. The checksum is
looked at before anything else, and contents are read with ``weights_only=True``: nothing in them is executed.
"""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import torch

from gossamer.core import InputError
from gossamer.torch.world import in_short

CHECKPOINT_FORMAT = 2
TITLE = b"gossamer checkpoint "
HEADER = len(TITLE) + len("0001 ") + 64 + len("\n")
WITHOUT_CHECKSUM = b"PK\x03\x04"
"""How files began before they had this line."""


class DamagedCheckpoint(Exception):
    """The bits of a file are not those that were written."""


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a file, whole or not at all."""
    payload = io.BytesIO()
    torch.save(content, payload)
    title = TITLE + b"%04d " % CHECKPOINT_FORMAT
    whole = path.with_suffix(".part")
    with whole.open("wb") as file:
        file.write(title + _digest(title, payload.getbuffer()) + b"\n")
        file.write(payload.getbuffer())
        file.flush()
        os.fsync(file.fileno())
    whole.replace(path)


def read(path: Path) -> dict[str, Any]:
    """What was written there. A changed bit raises `DamagedCheckpoint`, and another format `InputError`."""
    try:
        with path.open("rb") as file:
            header, payload = file.read(HEADER), file.read()
    except OSError as error:
        raise DamagedCheckpoint(f"{path.name} cannot be read ({error.strerror or error})") from error
    if header.startswith(WITHOUT_CHECKSUM):
        raise InputError(
            f"{path.name} was written by an earlier version of Gossamer, without a checksum, and is not read any more: "
            "go on with that version, or begin anew in another folder."
        )
    title = header[: -64 - 1]
    if not header.startswith(TITLE) or header != title + _digest(title, payload) + b"\n":
        raise DamagedCheckpoint(
            f"{path.name} is damaged (its checksum does not match its {len(header) + len(payload)} bytes)"
        )
    if (number := title[len(TITLE) :].strip()) != b"%04d" % CHECKPOINT_FORMAT:
        raise InputError(
            f"{path.name} has format {number.decode()}, but this version of Gossamer reads {CHECKPOINT_FORMAT:04d}: "
            "use the version that wrote it, or begin anew in another folder."
        )
    try:
        return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except Exception as error:  # whole, but written by something else: torch.load raises whatever it stumbles over
        raise InputError(f"{path.name} is whole, but PyTorch cannot read it ({in_short(error)}).") from error


def _digest(title: bytes, payload: Any) -> bytes:
    checksum = hashlib.sha256(title)
    checksum.update(payload)
    return checksum.hexdigest().encode()
