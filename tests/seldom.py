"""Which of many cases every run of the tests goes through."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def seldom(cases: Iterable[Any], always: Container[Any]) -> list[Any]:
    """The cases as parameters of a test, or tuples of several: those in `always` run always, others by `make slow`."""
    return [case if case in always else _slow(*case if isinstance(case, tuple) else (case,)) for case in cases]


def _slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)
