"""gossamer explore."""

import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.cache import seal
from gossamer.cli.shared import Cache, With, app, load_own, say


@app.command()
def explore(
    spec: Annotated[
        Path | None, typer.Argument(metavar="[SPEC]", help="The experiment, a TOML file [default: a9a on a ring of 20]")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port of the page; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    own: With = None,
    cache: Cache = True,
) -> None:
    """Open a page whose sliders move a spec's numbers: step sizes, momentum, bias, heterogeneity, agents and graph.

    Curves and each agent's disagreement follow at once, because numbers are arguments of compiled programs. Beside
    them stand the floor that the bias predicts and the step sizes that theory knows to be stable. The page is for this
    machine alone and fetches nothing; what it shows can be saved as a spec for `gossamer run`. Ctrl-C ends it.

    Examples:

        gossamer explore

        gossamer explore examples/a9a-ring.toml --port 8000 --no-browser
    """
    load_own(own)
    from gossamer.explore.explorer import DEFAULT, Explorer
    from gossamer.explore.server import PageServer
    from gossamer.specs.spec import Spec

    explorer = Explorer(Spec.of(DEFAULT) if spec is None else Spec.read(spec))
    with PageServer(explorer, port) as server:
        say(f"{server.url}    Ctrl-C ends it")
        sys.stdout.flush()
        if browser:
            import webbrowser

            # not before serving begins: a browser of the terminal is waited for, and waits for the page
            threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            seal()
            os._exit(0)  # at once: a compiled call may still be running in another thread
