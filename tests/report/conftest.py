"""A browser for the reports' tests; where there is none, the end of the test run says so."""

import os
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run"]
WHY = "no browser: the interactive report was not tested"


@pytest.fixture(scope="session")
def browser(request):
    """Chromium without a window; where there is none, a skip and a line that cannot be overlooked."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _skip(request.config, "the package playwright is missing")
    if not CHROMIUM.exists():
        _skip(request.config, f"{CHROMIUM} is missing")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield started
        started.close()


SHOTS = "GOSSAMER_SCREENSHOTS"
"""Where pictures of pages go, if it is set; else into the system's directory of temporary files."""


@pytest.fixture(scope="session")
def screenshots():
    """A directory for pictures of pages, which stay after the tests and which the end of the run names."""
    folder = Path(os.environ.get(SHOTS) or Path(tempfile.gettempdir()) / "gossamer-screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _skip(config, reason) -> NoReturn:
    if hasattr(config, "workerinput"):  # xdist's summary is made where this file is not read
        with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\nNOT RUN: {WHY} ({reason})", file=sys.stderr, flush=True)
    pytest.skip(f"{WHY} ({reason})")


def pytest_terminal_summary(terminalreporter):
    passed = terminalreporter.stats.get("passed", [])
    if any("both_widths" in one.nodeid for one in passed):
        folder = os.environ.get(SHOTS) or Path(tempfile.gettempdir()) / "gossamer-screenshots"
        terminalreporter.write_line(f"screenshots of the report: {folder}")
    skipped = [one for one in terminalreporter.stats.get("skipped", []) if WHY in str(one.longrepr)]
    if skipped:
        terminalreporter.write_line(f"NOT RUN: {len(skipped)} tests, {WHY}", yellow=True, bold=True)
