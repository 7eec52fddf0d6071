"""Values of schedules in the rounds of a run.

A schedule of JAX, such as those of optax, is computed in float64, whatever the run's precision, and for many rounds at
once: one call takes as long as a thousand rounds of a small run.
"""

import collections
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from gossamer.basics.lazy import jax, jnp
from gossamer.core import call_own, ranges, schedules

TOGETHER = 8192
"""Rounds in one call of a schedule of JAX. Fewer are padded, as JAX compiles anew for each length."""

FEW = 16
"""Rounds for which padding does not pay."""


def tabulate(rule: Any, key: str, rounds: Iterable[int]) -> Iterator[float]:
    """Yield a hyper-parameter in each of these rounds; the values of a schedule are checked."""
    value, allowed = getattr(rule, key), ranges(type(rule))[key]
    what = f"{type(rule).__name__}({key}=…), a schedule,"
    ahead = iter(rounds)
    while some := list(islice(ahead, TOGETHER)):
        for t, number in zip(some, _values(what, value, some) if callable(value) else [value] * len(some), strict=True):
            if type(number) is float and allowed.holds(number):  # the common case costs no message
                yield number
            else:
                yield allowed.check(f"{what} at round {t}", number)


def check_schedules(rules: Iterable[Any], steps: int) -> None:
    """Raise InputError for a schedule that leaves its range in any round, before a run begins."""
    checked = set()
    for rule in rules:
        for key, value in schedules(rule).items():
            # settings of a grid share their schedules
            if (type(rule), key, id(value)) not in checked:
                collections.deque(tabulate(rule, key, range(steps)), maxlen=0)  # reads every value and keeps none
                checked.add((type(rule), key, id(value)))


def _values(what: str, schedule: Callable[[Any], Any], rounds: list[int]) -> Iterable[Any]:
    """Return the values of a schedule, not more than `TOGETHER`."""
    first = call_own(what, schedule, rounds[0])
    if "jax" not in sys.modules or not isinstance(first, jax.Array):
        return (call_own(what, schedule, t) if k else first for k, t in enumerate(rounds))
    with jax.enable_x64(True):
        if len(rounds) > FEW:
            padded = jnp.asarray(rounds + rounds[-1:] * (TOGETHER - len(rounds)))
            try:
                return jax.vmap(schedule)(padded)[: len(rounds)].tolist()
            except Exception:  # it decides by the value of t, or is wrong: then one of the rounds says so
                pass
        return [call_own(what, schedule, t) for t in rounds]
