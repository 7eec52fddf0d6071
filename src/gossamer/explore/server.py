"""The page of `gossamer explore` and its answers, on loopback and for the page alone.

Pages of other sites must not reach them through the user's browser. So the Host header must name loopback, which stops
a site whose name was pointed at this address (DNS rebinding), and a question must be JSON: a browser sends JSON to
another origin only after asking the server, which never agrees.
"""

import json
import re
import sys
import traceback
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from gossamer.core import InputError
from gossamer.explore.explorer import Explorer, Superseded
from gossamer.report.page import embed_json, read_resource, render_template

HOST = "127.0.0.1"
LARGEST_QUESTION = 100_000
"""Bytes that a question may have."""

PATIENCE = 30.0
"""Seconds that a connection may be silent."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class PageServer(ThreadingHTTPServer):
    """An HTTP server of one page. Its threads end with the process."""

    daemon_threads = True
    allow_reuse_port = False  # newer Pythons would share a port with another page's server, and mix their answers
    request_queue_size = 128

    def __init__(self, explorer: Explorer, port: int = 0):
        """Listen on loopback at this port, or at a free one."""
        self.explorer = explorer
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise InputError(
                f"cannot listen at port {port} of {HOST}: {error.strerror}. Choose another by --port, or leave it out "
                "for a free one."
            ) from None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The values of the Host header that are loopback's: browsers leave out port 80."""
        names = HOST, "localhost"
        return *(f"{name}:{self.server_port}" for name in names), *(names if self.server_port == 80 else ())

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/"

    @cached_property
    def page(self) -> bytes:
        """The page, with plotly and all else that it needs."""
        room = files("gossamer.explore") / "web"
        texts = {name: (room / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")}
        data = self.explorer.describe()
        script = "\n".join([read_resource("base.js"), read_resource("curves.js"), texts["page.js"]])
        css = read_resource("page.css") + texts["page.css"]
        page = render_template(texts["page.html"], css, script, title=data["title"], data=embed_json(data, "data"))
        return page.encode()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):  # a page that was closed
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """A connection: the page by GET, questions by POST."""

    server: PageServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "gossamer", ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        if self._is_allowed():
            if self.path == "/":
                self._send(200, "text/html; charset=utf-8", self.server.page)
            else:
                self._refuse(404, f"there is nothing at {self.path[:80]}: the page is at /.")

    def do_POST(self) -> None:
        asked = {"/answer": self.server.explorer.answer, "/theory": self.server.explorer.theory}.get(self.path)
        length = self.headers.get("Content-Length", "")
        if not self._is_allowed():
            return
        if asked is None:
            self._refuse(404, f"there is nothing to ask at {self.path[:80]}: ask at /answer or /theory.")
        elif self.headers.get_content_type() != "application/json":
            self._refuse(415, "a question must have the Content-Type application/json, as the page sends it.")
        elif not (re.fullmatch("[0-9]{1,9}", length) and int(length) <= LARGEST_QUESTION):
            self._refuse(413, f"a question needs a Content-Length of at most {LARGEST_QUESTION:,} bytes.")
        else:
            self._answer(asked, self.rfile.read(int(length)))

    def _answer(self, asked: Any, body: bytes) -> None:
        try:
            given = json.loads(body)
        except (ValueError, RecursionError) as error:
            return self._refuse(400, f"the question is not JSON: {error}.")
        try:
            text = json.dumps(asked(given), allow_nan=False)
        except InputError as error:
            self._refuse(400, str(error))
        except Superseded:
            self._refuse(409, "the page has asked for something newer, which is answered instead.")
        except Exception as error:
            traceback.print_exc()
            self._refuse(500, f"an error of ours, not of your input: {type(error).__name__}: {error}")
        else:
            self._send(200, "application/json", text.encode())

    def _is_allowed(self) -> bool:
        """Return False, and refuse, where the request comes by another name than loopback's, or from another page."""
        hosts = self.server.hosts
        if self.headers.get("Host") not in hosts:
            self._refuse(403, f"this page is at {self.server.url} alone: open that address.")
        elif self.headers.get("Origin") not in (None, *(f"http://{host}" for host in hosts)):
            self._refuse(403, f"only the page at {self.server.url} may ask: open that address.")
        else:
            return True
        return False

    def _refuse(self, status: int, error: str) -> None:
        self.close_connection = True  # the body may not have been read
        self._send(status, "application/json", json.dumps({"error": error}).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **HEADERS}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a slider would fill the terminal."""
