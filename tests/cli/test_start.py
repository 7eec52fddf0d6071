"""How a command starts and ends: it imports what it needs and no more, and what it ends with stands in one table."""

import json
import re
import subprocess
import sys
from pathlib import Path

from gossamer import cli
from gossamer.basics.text import json_ready
from gossamer.cli.shared import EXIT_CODES
from tests.commands import gossamer

HEAVY = {"jax", "numpy", "scipy", "polars", "networkx", "matplotlib", "torch"}
STARTS = """
import contextlib, io, json, sys
from gossamer import cli
found = []
for words in (["--version"], ["run", "--help"], ["--help"], ["list", "algorithms"]):
    sys.argv = ["gossamer", *words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        cli.main()
    found.append(sorted({name.partition(".")[0] for name in sys.modules}))
print(json.dumps(found))
"""


def test_help_and_the_list_of_algorithms_import_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", STARTS], capture_output=True, text=True, check=True)
    version, of_run, help_, listed = (set(names) for names in json.loads(done.stdout))
    assert not version & {*HEAVY, "typer", "rich", "pydantic"}
    assert not of_run & {*HEAVY, "pydantic"}
    assert not (help_ | listed) & HEAVY


def test_every_exit_code_of_a_command_is_in_the_table_and_in_the_help():
    source = "\n".join(path.read_text() for path in Path(str(cli.__file__)).parent.glob("*.py"))
    raised = {int(code) for code in re.findall(r"xit\((\d+)\)", source)}
    assert {2, 3, 4, 5, 7, 130} <= raised <= EXIT_CODES.keys()
    shown = " ".join(gossamer("--help").stdout.split())
    assert all(f"{code} {meaning}" in shown for code, meaning in EXIT_CODES.items())


def test_keys_of_json_are_names_that_need_no_quotes():
    row = {"loss": 1.0, "loss_±": 0.1, "rows": [{"first_±": None}]}
    assert json_ready(row) == {"loss": 1.0, "loss_ci95": 0.1, "rows": [{"first_ci95": None}]}
    listed = json.loads(gossamer("list", "--json").stdout)
    assert all(key.isascii() and key.isidentifier() for key in keys(listed))


def keys(value):
    """All keys of what JSON holds, however deep."""
    if isinstance(value, dict):
        yield from value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys(one)
