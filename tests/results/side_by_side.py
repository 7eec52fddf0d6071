"""Results made up from numbers, so that what a comparison must say of them is known."""

import numpy as np
import polars as pl

from gossamer.metrics import OURS
from gossamer.results.result import Result

START = 2.0


def made_up(losses, *, seeds=None, rounds=10, diverged=(), data="d1", agents=4, dtype="float64", network="ring",
            start=START, dimension=3, code="c0de", spec=None):  # fmt: skip
    """A result whose methods end at these losses: {(algorithm, setting) or algorithm: [a loss for each seed]}."""
    keyed = {key if isinstance(key, tuple) else (key, "eta=0.1"): values for key, values in losses.items()}
    count = len(next(iter(keyed.values())))
    seeds = list(range(count)) if seeds is None else list(seeds)
    rows = []
    for (algorithm, setting), values in keyed.items():
        for seed, value in zip(seeds, values, strict=True):
            lost = (algorithm, seed) in diverged
            for number, loss, status in (
                (0, start, "ok"),
                (rounds, None if lost else value, "diverged" if lost else "ok"),
            ):
                row = {"algorithm": algorithm, "setting": setting, "replicate": seed, "seed": seed, "round": number}
                rows.append(
                    row
                    | {"status": status, **dict.fromkeys(OURS), "loss": loss}
                    | {"queries": float(number), "bytes_sent": 8.0 * number, "messages": float(number)}
                )
    floats = dict.fromkeys(OURS, pl.Float64)
    table = pl.DataFrame(rows, schema_overrides=floats | {"replicate": pl.Int64, "seed": pl.Int64, "round": pl.Int64})
    manifest = {
        "steps": rounds,
        "every": rounds,
        "dtype": dtype,
        "network": {"name": network, "agents": agents},
        "data": {"name": "made up", "sha256": (data * 40)[:64]} if data else None,
        "versions": {"gossamer": "0.1.0", "jax": "0.10.2", "code": code},
        "machine": {"device": "cpu: cpu"},
        "seconds": {},
    }
    states = {key: np.zeros((count, agents, dimension)) for key in keyed}
    return Result(table, states, seeds, None, manifest, spec)
