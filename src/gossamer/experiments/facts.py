"""What a study tells of its variants, besides their runs."""

from collections.abc import Iterable
from math import isfinite
from typing import Any

import numpy as np

from gossamer.networks import Network
from gossamer.problems import Empirical
from gossamer.results.result import Result
from gossamer.specs.parts import Parts


def facts_of(parts: Parts, result: Result) -> dict[str, Any]:
    """What a reader should know of a variant, besides its runs."""
    problem, network = parts.problem, parts.network
    facts: dict[str, Any] = {
        "agents": network.agents,
        "network": network.name,
        "gap": network.gap if _has_gap(network) else None,
        "links": network.links,
        "edges": _edges(parts) if network.agents <= 200 else None,
        "smoothness": problem.smoothness,
        "heterogeneity": problem.heterogeneity(problem.start),
        "heterogeneity_at_end": _heterogeneity_at_end(problem, result),
    }
    if isinstance(problem, Empirical):
        held = [problem.own_targets(agent) for agent in range(problem.agents)]
        classes = np.unique(np.concatenate(held))
        facts["classes"] = [str(value) for value in classes]
        facts["counts"] = [[int((own == value).sum()) for value in classes] for own in held]
    if result.mean_bias is not None:
        facts["bias_sq"] = float((result.mean_bias**2).sum(1).mean())
    # JSON has no infinity, which the numbers of an absurd problem may reach
    return {name: None if isinstance(value, float) and not isfinite(value) else value for name, value in facts.items()}


def _heterogeneity_at_end(problem: Any, result: Result) -> float | None:
    """Return ζ² at the mean model at the end of the first method's runs, the mean over seeds."""
    means = next(iter(result.states.values())).mean(1).astype(float)
    if not np.isfinite(means).all():
        return None
    return float(np.mean([problem.heterogeneity(mean) for mean in means]))


def _has_gap(network: Network) -> bool:
    """Whether ρ says something, and is found before long."""
    return not network.asynchronous and (network.agents <= 1_000 or not network.changes)


def _edges(parts: Parts) -> list[list[int]]:
    network = parts.network
    pairs: Iterable[tuple[int, int]] = (
        (agent, int(other)) for agent in range(network.agents) for other in network.neighbors(agent)
    )
    return [list(pair) for pair in sorted({(min(pair), max(pair)) for pair in pairs})]
