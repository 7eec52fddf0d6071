"""Show in a built page what a page on a forge cannot have: whole docstrings, and pictures by their size.

``<!-- built: TEXT -->OTHER<!-- /built -->`` is TEXT in a built page; a forge hides the comments and shows OTHER. With
``built, docstring: MODULE`` it is the docstring of that module; ``built, names:`` differs for ``docs/fill.py`` alone.
"""

import re
import struct
from pathlib import Path

BUILT = re.compile(r"<!-- built(?:, names)?: (.*?)\s*-->.*?<!-- /built -->", re.DOTALL)
DOCSTRING = re.compile(r"<!-- built, docstring: (\S+) -->.*?<!-- /built -->", re.DOTALL)
ALONE = "::: {}\n    options: {{ members: false, show_root_heading: false }}"
PICTURE = re.compile(r'<img (?P<more>[^>]*?src="(?P<file>[^"#]+\.png)(?:#[\w-]+)?"[^>]*?)(?P<end> ?/?)>')
WIDE = 1200
"""Pixels from which on a picture has several panels."""


def on_page_markdown(markdown: str, page, config, files) -> str:
    return BUILT.sub(r"\1", DOCSTRING.sub(lambda found: ALONE.format(found[1]), markdown))


def on_page_content(html: str, page, config, files) -> str:
    """Load pictures when they are scrolled to, and give each the class of its shape (`extra.css`)."""
    folder = Path(config["docs_dir"], page.file.src_uri).parent

    def shaped(found: re.Match[str]) -> str:
        width, height = struct.unpack(">II", (folder / found["file"]).read_bytes()[16:24])
        shape = "wide" if width > WIDE else "tall" if width < 1.1 * height else "narrow"
        return f'<img {found["more"]} class="{shape}" loading="lazy"{found["end"]}>'

    return PICTURE.sub(shaped, html)
