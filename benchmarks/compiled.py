"""Gossamer's compiled program, driven without the simulator around it: no compilation timed, no metric measured."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.task import ETA, LAM, Task
from gossamer import BiasedDMT, oracles
from gossamer.core import tabulate
from gossamer.engines import program
from gossamer.engines.agents import World
from gossamer.oracles import Oracle
from gossamer.oracles.oracle import Site
from gossamer.problems.problem import cast


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Taped(Oracle):
    """Mini-batches of given rows, ``[queries, agents, batch]``: what makes a run comparable with other code."""

    tape: Any

    def check(self, problem: Any) -> None:
        pass

    def init(self, site: Site) -> Any:
        return jnp.int32(0)

    def query(self, site: Site, state: Any, points: tuple[Any, ...]) -> Any:
        rows = self.tape[state, site.agent]
        return tuple(site.problem.batch_gradient(site.agent, rows, x) for x in points), state + 1


class Compiled:
    """A block of runs of Biased-DMT, one for each step size; `advance` takes it some rounds on."""

    def __init__(
        self,
        task: Task,
        dtype: str = "float32",
        tape: np.ndarray | None = None,
        etas: list[float] | None = None,
        horizon: int = 1,
    ):
        """`horizon` is how many rounds there are hyper-parameters for; beyond, the last ones hold."""
        oracle = oracles.minibatch(task.batch) if tape is None else Taped(tape.astype(np.int32))
        self.dtype = dtype
        with self._precision():
            self.world = World(*(cast(part, dtype) for part in (task.problem, task.network, oracle)))
            tables = [tabulate(BiasedDMT(eta=eta, lam=LAM), horizon) for eta in etas or [ETA]]
            self.hyper, self.keys = program.stacked(tables, dtype), program.keys_of([0])
            start = jnp.asarray(task.problem.start, dtype)
            x = jnp.broadcast_to(start, (task.problem.agents, task.problem.dim))
            self.run, self.t = program.begin(BiasedDMT, self.world, self.hyper, self.keys, x), 0

    @property
    def x(self) -> np.ndarray:
        return np.asarray(self.run.state.x)[0, 0]

    def advance(self, rounds: int) -> None:
        with self._precision():
            t, stops = jnp.int32(self.t), jnp.asarray([self.t + rounds], jnp.int32)
            wanted = jnp.asarray([False])
            run, _ = program.advance(BiasedDMT, self.world, self.hyper, self.keys, self.run, t, stops, wanted)
            self.run, self.t = jax.block_until_ready(run), self.t + rounds

    def _precision(self) -> Any:
        return jax.enable_x64(self.dtype == "float64")
