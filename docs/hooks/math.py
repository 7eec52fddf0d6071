"""Equations as MathML at build time: they show offline and without JavaScript, in pages and in docstrings alike."""

import html
import re

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

EQUATION = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.DOTALL)


def on_page_content(content: str, page, config, files) -> str:
    """Replace what pymdownx.arithmatex marked; mkdocstrings renders docstrings with the same extension."""

    def mathml(found: re.Match[str]) -> str:
        tag, bracket, latex = found.groups()
        try:
            made = convert(html.unescape(latex).strip(), display="block" if bracket == "[" else "inline")
        except Exception as error:
            raise PluginError(f"{page.file.src_path}: cannot read the equation {latex!r}: {error!r}") from error
        made = made.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")  # \sim is a relation, not a letter
        return f'<{tag} class="arithmatex">{made}</{tag}>'

    made = EQUATION.sub(mathml, content)
    if 'class="arithmatex">\\' in made:
        raise PluginError(f"{page.file.src_path}: an equation was left as LaTeX")
    return made
