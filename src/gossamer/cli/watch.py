"""gossamer watch."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.terminal import visible
from gossamer.cli.shared import AsJSON, app, existing, say, say_json


@app.command()
def watch(
    directory: Annotated[Path, typer.Argument(help="A run in progress, or a reproduction.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes any free one.")] = 0,
    idle: Annotated[float, typer.Option(min=1, help="Stop after this many seconds without news.")] = 1800.0,
    as_json: AsJSON = False,
) -> None:
    """Watch a run in the browser: its curves so far, on a page that reloads by itself.

    It only reads the run's store, listens on 127.0.0.1 alone, and stops by itself once the finished run has been
    shown.

    Examples:

        gossamer watch runs/a9a-ring

        gossamer watch runs/reproduction --port 8000
    """
    from gossamer.report import serving

    def tell(address: str) -> None:
        if as_json:
            say_json({"url": address})
        else:
            say(f"watching {visible(directory)}: open {address} (Ctrl-C ends it)")
        typer.get_text_stream("stdout").flush()

    try:
        why = serving.serve(existing(directory), port, idle, tell)
    except KeyboardInterrupt:
        return
    if not as_json:
        say(f"ended: {why}")
