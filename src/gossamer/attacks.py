r"""Attackers: agents that send wrong gradients or messages on purpose.

| kind | a vector $a$ becomes |
| --- | --- |
| flip | $-s\, a$ |
| scale | $s\, a$ |
| constant | $s \mathbf 1$ |
| alie | $\mu - z\, \sigma$, by coordinates, over the honest agents' vectors |

ALIE stays as close to the honest agents as a majority allows: with $m$ attackers among $n$ agents
$z = \Phi^{-1}\bigl(\frac{n - m - s}{n - m}\bigr)$, where $s = \lfloor n/2 + 1 \rfloor - m$.

Reference: G. Baruch, M. Baruch and Y. Goldberg, "A little is enough: circumventing defenses for distributed learning",
NeurIPS 2019, arXiv 1902.06156.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

from gossamer.core import InputError, Range, brief, nearest, whole

KINDS = ("flip", "scale", "constant", "alie")

SIGN = {"flip": -1.0, "scale": 1.0}
"""The sign of s, for the kinds that multiply by s."""

SHARE = Range(0, 1, False, True, "It is the share of the agents that attack; at 1 nobody would be honest.")
NUMBER = Range(-math.inf, math.inf, True, True)


class Attack(NamedTuple):
    """An attack: its kind and scale, and the agents that attack."""

    kind: str
    scale: float
    """s, or z of ALIE."""
    attackers: tuple[int, ...]

    def __str__(self) -> str:
        few = ", ".join(map(str, self.attackers[:4])) + (", …" if len(self.attackers) > 4 else "")
        return f"{self.kind}, scale={self.scale:g}, agents=[{few}]"


def named(name: str, agents: Any, share: Any) -> tuple[tuple[int, ...] | None, float | None]:
    """Return the numbers of the attackers, or their share, checked as far as the number of agents allows."""
    if (agents is None) == (share is None):
        raise InputError(f"{name} takes agents, a list of numbers, or share, a part of all: give exactly one of them.")
    if share is not None:
        return None, SHARE.check(f"{name}(share=…)", share)
    if not isinstance(agents, (list, tuple, range)) and getattr(agents, "ndim", None) != 1:
        raise InputError(f"{name}(agents=…) must be a list of agents' numbers, but is {brief(agents)}.")
    given = sorted(whole(f"{name}(agents=…)", one, least=0) for one in agents)
    if len(set(given)) < len(given):
        raise InputError(f"{name}(agents=…) names agents twice, in {brief(given)}: name each once.")
    return tuple(given), None


def chosen(name: str, count: int, agents: Any, share: Any) -> tuple[int, ...]:
    """Return the attackers: the agents given, or a share of all, at equal distances starting from agent 0."""
    given, part = named(name, agents, share)
    if given is not None:
        if given and given[-1] >= count:
            raise InputError(f"{name}(agents=…) names agent {given[-1]}, but there are {count} agents, from 0 on.")
        if len(given) == count:
            raise InputError(f"{name}(agents=…) names all {count} agents: leave some of them honest.")
        return given
    assert part is not None
    number = round(part * count)
    if (part > 0 and number == 0) or number == count:
        raise InputError(
            f"{name}(share={part:g}) of {count} agents is {number}: take a share from {1 / count:.3g} to "
            f"{1 - 1 / count:.3g}, or 0."
        )
    return tuple(k * count // number for k in range(number))


def scale_of(name: str, kind: Any, scale: Any, kinds: tuple[str, ...]) -> float | None:
    """Return the scale of an attack of this kind; None lets ALIE compute its own."""
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"{name}(how=…) is {brief(kind)}, which is no attack; {nearest(kind, kinds)}")
    if scale is not None:
        return NUMBER.check(f"{name}(scale=…)", scale)
    if kind in ("scale", "constant"):
        raise InputError(f'{name}(how="{kind}") needs scale, the number that it takes: give one.')
    return 1.0 if kind == "flip" else None


def alie_scale(name: str, count: int, attackers: int, given: Any = None) -> Any:
    """Return z of ALIE, unless given: the attackers and the honest agents beyond z are just short of a majority."""
    honest = count - attackers
    if honest < 2:
        raise InputError(
            f'{name}(how="alie") takes the spread of honest agents, but only {honest} of {count} does not attack: take '
            "fewer attackers."
        )
    if given is not None:
        return given
    if 2 * attackers >= count:
        raise InputError(
            f'{name}(how="alie") hides among a majority of honest agents, but {attackers} of {count} attack: take '
            "fewer attackers, or give scale, its z."
        )
    supporters = count // 2 + 1 - attackers
    return NormalDist().inv_cdf((honest - supporters) / honest)
