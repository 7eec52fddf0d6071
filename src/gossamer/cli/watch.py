"""gossamer watch."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.terminal import visible
from gossamer.cli.shared import AsJSON, app, existing, say, say_json


@app.command()
def watch(
    directory: Annotated[Path, typer.Argument(help="A run that goes on, or a reproduction.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen on this machine; 0 takes any.")] = 0,
    idle: Annotated[float, typer.Option(min=1, help="End when nothing new came for so many seconds.")] = 1800.0,
    as_json: AsJSON = False,
) -> None:
    """Show a run in a browser while it goes on: its curves so far, on a page that loads itself again.

    It reads the run's store and changes nothing, listens on 127.0.0.1 alone, and ends by itself when the run is
    finished and was seen.

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
