"""The command line without a process for each command: to start one takes longer than most of them."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from gossamer import cli

SHOWN = {"COLUMNS": "200", "NO_COLOR": "1"}
"""What the width and the colours of what is printed depend on."""


def gossamer(*arguments: object, cwd: Path | str = ".") -> "subprocess.CompletedProcess[str]":
    """Run a command in a directory: its exit code, and what it printed and said."""
    words, printed, told = ["gossamer", *map(str, arguments)], io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.dict(os.environ, SHOWN),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(told),
    ):
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return subprocess.CompletedProcess(words, code, printed.getvalue(), told.getvalue())
