"""gossamer launch."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli.shared import app, check_options, flag
from gossamer.core import InputError, brief


@app.command(context_settings={"allow_interspersed_args": False})
def launch(
    script: Annotated[Path, typer.Argument(metavar="FILE", help="A spec, a TOML file; or a training script.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its own arguments, or those of gossamer run.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="How many processes; each one of a script is an agent.")] = 2,
    max_restarts: Annotated[int, typer.Option(min=0, help="How often to begin again after a failure.")] = 0,
    prefix: Annotated[bool, typer.Option(help="Begin each line of a script's processes with its rank.")] = True,
    elastic: Annotated[bool, flag("--elastic", "Let a script's processes go on when one of them is lost.")] = False,
    bind: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Where to serve the Lighthouse of an elastic run; port 0 is a free one."
        ),
    ] = "127.0.0.1:0",
    lighthouse: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The Lighthouse of an elastic run that something else serves: http://host:port."
        ),
    ] = None,
    agents: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="How many agents begin an elastic run on all machines; 0 joins [default: processes, or 0 with URL]",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Where the processes of a spec meet [default: a free port]")
    ] = None,
) -> None:
    """Run a spec, or a PyTorch training script, in several processes on this machine.

    A spec runs as `gossamer run` does, shared out over the devices of all processes: its seeds, or the agents of every
    run. The first process alone writes and prints. When one is lost, all end with code 6, or begin again at most
    --max-restarts times, from what was finished.

    A script is started by torchrun, whose exit code is returned. On Linux no process outlives this one, even where it
    is killed. Everything listens on loopback only. An error that all ranks raise is printed once.

    With --elastic the script makes Decentralized(…, elastic=True): when one of its processes is lost, the others go on,
    and with --max-restarts it is started again and joins them. This command then serves a Lighthouse of torchft and
    starts one torchrun for each process. Other machines take part by --lighthouse if this one serves it at an address
    that they reach, by --bind.

    Examples:

        gossamer launch --processes 2 examples/a9a-ring.toml

        gossamer launch --processes 4 my.toml --devices 8 --split agents --out runs/mine

        gossamer launch --processes 4 --max-restarts 2 train.py --epochs 3

        gossamer launch --processes 4 --elastic --max-restarts 2 train.py
    """
    if not os.path.isfile(script):
        raise InputError(f"there is no script or spec {brief(str(script))} to launch.")
    if script.suffix == ".toml":
        if elastic:
            raise InputError("--elastic is for training scripts, but this is a spec: leave it out.")
        from gossamer.engines import processes as launching

        given = [str(script), *(arguments or [])]
        check_options("run", given)
        raise typer.Exit(launching.launch(processes, given, port=port, max_restarts=max_restarts))
    if port is not None:
        raise InputError("--port is for a spec, but this is a script: leave it out, torchrun needs none here.")
    if not elastic and (lighthouse or agents is not None or bind != "127.0.0.1:0"):
        raise InputError("--bind, --lighthouse and --agents are for an elastic run: give --elastic, too.")
    from gossamer.torch.launch import launch as start  # only this command needs PyTorch

    options = {"elastic": elastic, "bind": bind, "lighthouse": lighthouse, "agents": agents}
    raise typer.Exit(start(processes, script, arguments or [], max_restarts=max_restarts, prefix=prefix, **options))
