r"""The vocabulary: what an algorithm is and all that it may touch.

An algorithm is a *rule*: a frozen object with a few hyper-parameters and two pure functions, ``init`` and ``step``.
It is written in plain arithmetic on whatever arrays the engine gives it, so the same object runs stacked over all
agents inside a compiled simulator and on one agent's own vector in a process of its own; it cannot tell which.
"""

from gossamer.core.contract import (
    Agent,
    Aggregator,
    Array,
    Compressor,
    MeetingAgent,
    Needs,
    Over,
    PostingAgent,
    Rule,
    State,
    Value,
)
from gossamer.core.errors import (
    LARGEST_INT,
    InputError,
    brief,
    flag,
    nearest,
    whole,
)
from gossamer.core.hyperparameters import (
    Count,
    Decay,
    LocalStep,
    Mixing,
    PushedWarm,
    Range,
    StepSize,
    Warm,
    WarmStart,
    Weight,
    Whole,
)
from gossamer.core.registry import (
    Registry,
)
from gossamer.core.rules import (
    bind,
    check_schedules,
    counts,
    hyperparameters,
    is_rule,
    kinds_of_parts,
    parts,
    ranges,
    rule,
    schedules,
    setting,
    shown,
    tabulate,
)

__all__ = [
    "LARGEST_INT",
    "Agent",
    "Aggregator",
    "Array",
    "Compressor",
    "Count",
    "Decay",
    "InputError",
    "LocalStep",
    "MeetingAgent",
    "Mixing",
    "Needs",
    "Over",
    "PostingAgent",
    "PushedWarm",
    "Range",
    "Registry",
    "Rule",
    "State",
    "StepSize",
    "Value",
    "Warm",
    "WarmStart",
    "Weight",
    "Whole",
    "bind",
    "brief",
    "check_schedules",
    "counts",
    "flag",
    "hyperparameters",
    "is_rule",
    "kinds_of_parts",
    "nearest",
    "parts",
    "ranges",
    "rule",
    "schedules",
    "setting",
    "shown",
    "tabulate",
    "whole",
]
