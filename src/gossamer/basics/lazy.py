"""Modules that are imported when something of them is first used."""

import importlib
from typing import Any


class Lazy:
    """Stands for a module, and imports it when something of it is asked for."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
