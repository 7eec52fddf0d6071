"""The spec of the winner, ready to run."""

from typing import Any

import tomlkit

from gossamer.experiments.recommending.question import Question
from gossamer.experiments.recommending.searching import Task
from gossamer.results.recommendation import title


def winner_of(question: Question, task: Task, seeds: int, row: dict[str, Any]) -> str:
    """The winner as TOML: the problem as it was, with its method, its graph and all rounds of the budget."""
    way, _, (values,), rounds = task
    given = question.spec.model_dump(exclude_unset=True)
    for name in ("tuning", "variant", "title", "experiment"):
        given.pop(name, None)
    first = 1_000 * question.seed
    given["network"] = way.network
    given["run"] = {
        "steps": rounds,
        "every": max(1, rounds // 100),
        "seeds": list(range(first, first + seeds)) if first else seeds,
        "dtype": question.spec.run.dtype,
    }
    assert question.spec.clock is not None
    given["clock"] = question.spec.clock.model_dump(exclude_unset=True)
    given["algorithm"] = [way.algorithm | values]
    head = f"# Recommended for {question.sought}: {title(row)}, {row['setting']}.\n\n"
    return head + tomlkit.dumps(given)
