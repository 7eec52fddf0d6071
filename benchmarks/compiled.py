"""Gossamer's compiled program, driven without the simulator around it: no compilation timed, no metric measured."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.task import ETA, LAM, Task
from gossamer import BiasedDMT, oracles, pytree
from gossamer.engines.block import Block
from gossamer.engines.devices import DeviceLayout
from gossamer.oracles import Oracle
from gossamer.oracles.oracle import Site


@pytree
@dataclass(frozen=True)
class Taped(Oracle):
    """Mini-batches of given rows, ``[queries, agents, batch]``: what makes a run comparable with other code."""

    tape: Any

    def check(self, problem: Any) -> None:
        pass

    def init(self, site: Site) -> Any:
        return jnp.int32(0)

    def query(self, site: Site, state: Any, points: tuple[Any, ...]) -> Any:
        problem: Any = site.problem
        rows = self.tape[state, site.agent]
        return tuple(problem.batch_gradient(site.agent, rows, x) for x in points), state + 1

    def value(self, site: Site, state: Any, points: tuple[Any, ...]) -> Any:
        problem: Any = site.problem
        rows = self.tape[state, site.agent]
        return tuple(problem.batch_loss(site.agent, rows, x) for x in points)

    def bias(self, site: Site, state: Any) -> None:
        return None


class Compiled:
    """A block of runs of Biased-DMT, one for each step size; `advance` takes it some rounds on."""

    def __init__(
        self,
        task: Task,
        dtype: str = "float32",
        tape: np.ndarray | None = None,
        etas: list[float] | None = None,
        seeds: int = 1,
        devices: int = 1,
    ):
        """`seeds` run together, and are shared out over `devices`."""
        oracle = oracles.minibatch(task.batch) if tape is None else Taped(tape.astype(np.int32))
        rules = [BiasedDMT(eta=eta, lam=LAM) for eta in etas or [ETA]]
        self.block = Block(
            rules,
            task.problem,
            task.network,
            [oracle] * len(rules),
            seeds=range(seeds),
            steps=1,
            dtype=dtype,
            layout=DeviceLayout(seeds=devices),
        )
        self.t = 0

    @property
    def x(self) -> np.ndarray:
        """``[settings, agents, d]``, of the first seed."""
        return self.block.x[:, 0]

    def advance(self, rounds: int) -> None:
        self.block.advance(self.t, [self.t + rounds], [False])
        jax.block_until_ready(self.block.run)
        self.t += rounds
