"""What JSON can say."""

import math
from typing import Any


def finite(value: Any) -> Any:
    """A copy of what JSON can say, with None for numbers that are not finite."""
    match value:
        case dict():
            return {_key(key): finite(one) for key, one in value.items()}
        case list() | tuple():
            return [finite(one) for one in value]
        case float() if not math.isfinite(value):
            return None
    return value


def _key(key: Any) -> Any:
    return f"{key.removesuffix('_±')}_ci95" if isinstance(key, str) and key.endswith("_±") else key
