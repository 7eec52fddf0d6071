"""A user's own file of code, whose definitions can be named in specs for as long as this process runs.

The file comes from the command line (``--with mine.py``), never from a spec: a spec from someone else runs no code.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from gossamer.algorithms import register
from gossamer.core import InputError, is_rule
from gossamer.engines.blame import blame


def load(file: str | Path) -> ModuleType:
    """Run a file, and register the rules that it defines. Its decorators register all else."""
    path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file {path} to take code from.")
    name = "_".join(("gossamer_own", *(part for part in path.stem.split() if part)))
    known = importlib.util.spec_from_file_location(name, path.resolve())
    if known is None or known.loader is None:
        raise InputError(f"{path} is no Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(known)
    sys.modules[name] = module
    try:
        with blame(f"{path}"):
            known.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        raise InputError(f"{path}, line {error.lineno}, is not Python: {error.msg}.") from None
    except BaseException:
        del sys.modules[name]
        raise
    for value in list(vars(module).values()):
        if is_rule(value) and value.__module__ == name:
            register(value)
    return module
