"""Devices and processes that a command computes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import typer

from gossamer.basics.sizes import cores
from gossamer.cli.shared import flag, print_error, resumable
from gossamer.core import InputError, brief, whole

MOST = 4096  # devices that can be asked for

Devices = Annotated[
    str | None,
    typer.Option(metavar="N|all", help="Share out over N devices, or all that make it faster [default: one]"),
]
Split = Annotated[
    str | None, typer.Option(metavar="runs|agents", help="What to share out [default: what is estimated to be faster]")
]
Cluster = Annotated[
    bool,
    flag("--cluster", "Join the processes that Slurm, Open MPI or Kubernetes started."),
]
Coordinator = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Join other processes at the address where the first one listens."),
]
Processes = Annotated[int | None, typer.Option(min=1, help="How many processes there are.")]
Process = Annotated[int | None, typer.Option(min=0, help="Which one this is, from 0.")]


class Meeting(NamedTuple):
    """The address at which several processes meet."""

    cluster: bool = False
    coordinator: str | None = None
    processes: int | None = None
    process: int | None = None


NOBODY = Meeting()


@contextmanager
def use_devices(devices: str | None, split: str | None, meeting: Meeting = NOBODY) -> Iterator[None]:
    """Compute on these devices, together with the processes of a meeting; Ctrl-C ends with a word on how to go on."""
    count = devices
    if devices is not None and devices != "all":
        if not devices.isdecimal():
            raise InputError(f"--devices must be a whole number or all, but is {brief(devices)}.")
        count = whole("--devices", int(devices), most=MOST)
    if count is None and split is None and meeting == NOBODY:
        with resumable():
            yield
        return
    from gossamer.engines import devices as places
    from gossamer.engines import processes  # JAX must be told before it starts

    several = meeting.processes or 1
    if isinstance(count, int):
        if count % several:
            raise InputError(f"--devices {count} cannot be shared equally by {several} processes.")
        places.devices(count // several)
    elif count == "all" and meeting == NOBODY:
        places.devices(cores())
    if meeting != NOBODY:
        if meeting.cluster and meeting != Meeting(cluster=True):
            raise InputError("--cluster finds the other processes by itself: leave out --coordinator, or --cluster.")
        processes.join(*meeting[1:])
        count = count or "all"
    with resumable(), processes.end_together(print_error), places.use_devices(count, split):
        yield
