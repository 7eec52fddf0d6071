"""A server that shows a run while it goes on: for this machine's browser alone, and it ends by itself."""

import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from gossamer.core import InputError
from gossamer.report.live import Running

LOOPBACK = "127.0.0.1"
OURS = ("127.0.0.1", "localhost")
"""The hosts that a request may name: a page of another name that leads here is refused."""

LEAST = 2.0
"""Seconds between two looks at the store."""

GRACE = 4.0
"""How long the server goes on once the finished page was seen, so that all of it arrives."""

UNSEEN = 120.0
"""How long it waits for somebody to see a finished run."""


class Watching:
    """What is shown now, made anew when the store has changed."""

    def __init__(self, folder: Path):
        self.running = Running(folder)
        self.mark, self._looked, self._page = "", -LEAST, ""
        self.seen: float | None = None
        """When the finished page was asked for."""

    def state(self) -> str:
        """The mark of what there is."""
        if time.monotonic() - self._looked >= LEAST:
            self._looked = time.monotonic()
            mark = self.running.mark() + ("!" if self.running.finished else "")
            if mark != self.mark:
                self.mark, self._page = mark, ""
        return self.mark

    def page(self) -> bytes:
        mark = self.state()
        if not self._page:
            self._page = self.running.page(mark)
        if mark.endswith("!"):
            self.seen = time.monotonic()
        return self._page.encode(errors="replace")


def serve(folder: Path, port: int, idle: float, say: Callable[[str], None]) -> str:
    """Show a run until it is finished and seen, or nothing new came for `idle` seconds; returned is why it ended."""
    watching = Watching(folder)
    watching.state()
    try:
        server = HTTPServer((LOOPBACK, port), _handler(watching))
    except OSError as error:
        raise InputError(
            f"cannot listen on port {port}: {error.strerror or error}. --port 0 takes any that is free."
        ) from error
    with server:
        server.timeout = 0.5
        say(f"http://{LOOPBACK}:{server.server_address[1]}/")
        began, done = time.monotonic(), None
        while True:
            server.handle_request()
            now = time.monotonic()
            if watching.seen is not None and now - watching.seen > GRACE:
                return "the run is finished, and its page was seen"
            done = (done or now) if watching.state().endswith("!") else None
            if done is not None and now - done > UNSEEN:
                return "the run is finished"
            if done is None and min(time.time() - watching.running.newest(), now - began) > idle:
                return f"nothing new came for {idle:g} s"


def _handler(watching: Watching) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        """A request that does not come to its end holds nobody up for longer."""

        def do_GET(self) -> None:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
            if host not in OURS:
                self._answer(403, "text/plain", b"only for this machine\n")
            elif self.path == "/":
                self._answer(200, "text/html; charset=utf-8", watching.page())
            elif self.path == "/state":
                self._answer(200, "application/json", json.dumps({"mark": watching.state()}).encode())
            else:
                self._answer(404, "text/plain", b"there is only /\n")

        def _answer(self, code: int, kind: str, data: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: a terminal is no place for what a browser sends."""

    return Handler
