"""Programs that are compiled in haste: for searches, which run many programs for a short time each.

XLA writes their kernels in its older way, each program in one piece and with less effort. A search of a9a on a ring of
20 compiles in about half the time, and its rounds take as long.
"""

from functools import partial
from typing import Any

import jax

from gossamer.engines import program
from gossamer.engines.agents import StackedAgents
from gossamer.engines.devices.layouts import ALONE, Alone

HASTE = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}

RUN = 6
"""Where the runs stand among the arguments of the program below: they are given up, as in `program.advance`."""


@partial(jax.jit, static_argnums=0, compiler_options=HASTE | {"xla_backend_optimization_level": 0})
def _begun(form: program.Form, *arrays: Any) -> program.RunState:
    return program.starts(form, StackedAgents, *arrays)


@partial(
    jax.jit,
    static_argnums=(0, 1),
    donate_argnums=RUN,
    compiler_options=program.SERIAL | HASTE | {"xla_backend_optimization_level": 1},
)
def _advanced(form: program.Form, metrics: Any, *arrays: Any) -> Any:
    return program.legs(partial(program.rounds, form, StackedAgents), form, metrics, *arrays)


class Hasty(Alone):
    """All on one device, by programs that are compiled sooner."""

    def begin(self, form: program.Form, *arrays: Any) -> program.RunState:
        return _begun(form, *arrays)

    def begun(self, form: program.Form, *arrays: Any) -> program.RunState:
        return ALONE.begun(form, *arrays)  # what has options of the compiler is not traced inside of another program

    def advance(self, form: program.Form, metrics: Any, *arrays: Any) -> Any:
        return _advanced(form, metrics, *arrays)


HASTY = Hasty()


def in_haste(layout: Alone) -> Alone:
    """The layout whose programs are compiled in haste, where it has such."""
    return HASTY if layout is ALONE and jax.default_backend() == "cpu" else layout
