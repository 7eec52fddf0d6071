"""Equations as MathML at build time: they show offline and without JavaScript, in pages and in docstrings alike."""

import html
import re

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

GAP = re.compile(r"\\qquad|\\quad")
EQUATION = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.DOTALL)


def on_page_content(content: str, page, config, files) -> str:
    """Replace what pymdownx.arithmatex marked; mkdocstrings renders docstrings with the same extension."""

    def mathml(found: re.Match[str]) -> str:
        tag, bracket, latex = found.groups()
        display = "block" if bracket == "[" else "inline"
        try:
            made = [convert(part, display=display) for part in parts(html.unescape(latex).strip(), display)]
        except Exception as error:
            raise PluginError(f"{page.file.src_path}: cannot read the equation {latex!r}: {error!r}") from error
        text = "".join(made).replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")  # \sim is a relation, not a letter
        return f'<{tag} class="arithmatex">{text}</{tag}>'

    made = EQUATION.sub(mathml, content)
    if 'class="arithmatex">\\' in made:
        raise PluginError(f"{page.file.src_path}: an equation was left as LaTeX")
    return made


def parts(latex: str, display: str) -> list[str]:
    """The equations that stand side by side with wide gaps between them, so that a narrow page can put them below one
    another; one that is written in lines, or has a gap within braces, stays whole.
    """
    found = [part.strip() for part in GAP.split(latex)]
    whole = display == "inline" or "\\begin" in latex or any(part.count("{") != part.count("}") for part in found)
    return [latex] if whole else [part for part in found if part]
