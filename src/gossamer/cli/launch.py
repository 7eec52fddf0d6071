"""The command that starts a PyTorch training script on this machine."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli.shared import app
from gossamer.core import InputError, brief


@app.command(context_settings={"allow_interspersed_args": False})
def launch(
    script: Annotated[Path, typer.Argument(help="The training script.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its own arguments.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="How many processes, each one agent.")] = 2,
    max_restarts: Annotated[int, typer.Option(min=0, help="How often to begin again after a failure.")] = 0,
) -> None:
    """Run a PyTorch training script in several processes on this machine: a thin front for torchrun.

    All that is needed on one machine is set, and everything listens on loopback only. The exit code is torchrun's. On
    Linux no process outlives this one, even where it is killed.

    Examples:

        gossamer launch --processes 4 examples/torch_digits.py

        gossamer launch --processes 4 --max-restarts 2 train.py --epochs 3
    """
    if not os.path.isfile(script):
        raise InputError(f"there is no script {brief(str(script))} to launch.")
    from gossamer.torch.launch import launch as start  # only this command needs PyTorch

    raise typer.Exit(start(processes, script, arguments or [], max_restarts=max_restarts))
