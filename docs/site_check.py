"""Look at every page of the built documentation in Chromium, opened from disk, and say what is wrong with it.

python docs/site_check.py site [SCREENSHOTS]

At 400 and at 1400 px: no formula is left as LaTeX, nothing reaches over the edge, no identifier in a table is broken,
and at 1400 px no equation, table or code needs to be scrolled. Nothing is logged, no other host is asked,
every link leads somewhere, and the search finds something. With a second directory, five pages are written there as
pictures, at both widths and in both themes.
"""

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
WIDTHS, HEIGHT = (1400, 400), 900
PATIENCE = 300_000
"""Milliseconds: how long a page takes says nothing of whether it is right."""
SHOWN = ("index", "tutorial", "gallery", "methods", "reproduction")
"""The pages that are written as pictures."""

LOOK = (Path(__file__).parent / "site_check.js").read_text(encoding="utf-8")
LINKS = "nodes => nodes.map(node => node.getAttribute('href') === '#' ? '' : node.href)"
NAMES = "nodes => nodes.map(node => node.id || node.name)"


def main(site: Path, pictures: Path | None) -> int:
    """Print each fault, and return their number."""
    faults, pages = 0, sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        for fault in chain(looked_at(browser, site, pages), searched(browser, site)):
            print(fault, flush=True)
            faults += 1
        if pictures is not None:
            written = photographed(browser, site, pictures)
            print(f"{written} pictures: {pictures}")
        browser.close()
    print(f"{len(pages)} pages at {' and '.join(map(str, WIDTHS))} px: {faults or 'no'} fault{'s' * (faults != 1)}")
    return faults


def looked_at(browser: Browser, site: Path, pages: list[Path]) -> Iterator[str]:
    """Yield the faults of the pages, each loaded once and shown at both widths."""
    links: dict[Path, set[str]] = {}
    names: dict[str, set[str]] = {}
    page = browser.new_page(viewport={"width": WIDTHS[0], "height": HEIGHT}, reduced_motion="reduce")
    page.set_default_timeout(PATIENCE)
    noted = listening(page)
    for file in pages:
        where = file.relative_to(site).as_posix()
        page.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
        page.goto(file.absolute().as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            yield from (f"{where} at {width} px: {fault}" for fault in page.evaluate(LOOK, width == max(WIDTHS)))
        links[file] = set(page.eval_on_selector_all("a[href]", LINKS)) - {""}
        names[file.absolute().as_uri()] = set(page.eval_on_selector_all("[id], a[name]", NAMES))
        yield from (f"{where}: {one}" for one in noted)
        noted.clear()
    page.close()
    for file, found in links.items():
        where = file.relative_to(site).as_posix()
        yield from (f"{where}: dead link {link}" for link in sorted(found) if dead(link, names))


def listening(page: Page) -> list[str]:
    """Return a list that gets what the page logs, and what it asks of other hosts."""
    noted: list[str] = []
    page.on("console", lambda message: noted.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: noted.append(f"error: {error}"))
    page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else noted.append(asked.url))
    return noted


def dead(link: str, names: dict[str, set[str]]) -> bool:
    """Return True if a link from a page on disk leads nowhere; those to other hosts are not followed."""
    page, anchor = urldefrag(link)
    if not page.startswith("file:"):
        return False
    if page not in names:
        return not Path(unquote(urlsplit(page).path)).is_file()
    return bool(anchor) and unquote(anchor) not in names[page]


def searched(browser: Browser, site: Path) -> Iterator[str]:
    """Return True if a word that stands on many pages is found from the first one."""
    page = browser.new_page(viewport={"width": WIDTHS[0], "height": HEIGHT})
    page.set_default_timeout(PATIENCE)
    noted = listening(page)
    page.goto((site / "index.html").absolute().as_uri())
    page.click("input.md-search__input")
    page.keyboard.type("momentum")
    try:
        page.wait_for_selector(".md-search-result__item a")
    except Exception as error:
        yield f"search: nothing was found ({str(error).splitlines()[0]})"
    yield from (f"search: {one}" for one in noted)
    page.close()


def photographed(browser: Browser, site: Path, pictures: Path) -> int:
    """Write the pages that are shown, and say how many pictures there are."""
    pictures.mkdir(parents=True, exist_ok=True)
    taken = 0
    for theme in ("light", "dark"):
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme=theme)
            page.set_default_timeout(PATIENCE)
            for name in SHOWN:
                page.goto((site / f"{name}.html").absolute().as_uri())
                page.screenshot(path=str(pictures / f"{name}-{width}-{theme}.png"))
                taken += 1
            page.close()
    return taken


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not (Path(sys.argv[1]) / "index.html").is_file():
        sys.exit("usage: python docs/site_check.py SITE [SCREENSHOTS], where `make docs` has written SITE")
    if not CHROMIUM.exists():
        sys.exit(f"{CHROMIUM} is missing: apt-get install chromium")
    sys.exit(1 if main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else None) else 0)
