"""Bytes as text."""

from gossamer.core import InputError


def decoded(content: bytes) -> str:
    """The text, or an error that names the first line that is none."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"line {line}: this is not text in UTF-8.") from None
