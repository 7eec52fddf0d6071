"""Values that JSON can hold."""

import math
import re
from typing import Any


def finite(value: Any) -> Any:
    """Return a copy with None for numbers that are not finite, and `_ci95` for `_±` at the end of keys."""
    match value:
        case dict():
            return {
                re.sub("_±$", "_ci95", key) if isinstance(key, str) else key: finite(one) for key, one in value.items()
            }
        case list() | tuple():
            return [finite(one) for one in value]
        case float() if not math.isfinite(value):
            return None
    return value
