"""Write docs/gallery.md: every example with what it prints and draws, as its command does.

python docs/gallery.py [NAME …]      # all of them, or some, beside those that the page has already

Finished runs in runs/gallery are not run again.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

from gossamer import cli
from gossamer.cli.init import comment, examples
from gossamer.report import figures
from gossamer.results.study import Study

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE, FIGURES, RUNS = HERE / "gallery.md", HERE / "assets" / "gallery", ROOT / "runs" / "gallery"

SHOWN = {
    "a9a-ring": ("The paper's problem", "grad_norm_sq", "rounds", ""),
    "compressed": ("Compressed messages", "grad_norm_sq", "bytes", ""),
    "attacked": ("Attackers", "loss", "rounds", "--across loss"),
    "private": ("Privacy", "loss", "rounds", ""),
    "directed": ("Links that go one way", "grad_norm_sq", "rounds", ""),
    "time-varying": ("A graph that changes every round", "grad_norm_sq", "bytes", ""),
    "faulty": ("A network that fails", "grad_norm_sq", "rounds", ""),
    "graphs": ("Graphs by what they cost", "grad_norm_sq", "bytes", "--across consensus"),
    "tree": ("Sums along a tree", "stationarity", "rounds", ""),
    "local-steps": ("Local steps", "grad_norm_sq", "bytes", ""),
    "pseudo-gradients": ("What is no gradient", "grad_norm_sq", "rounds", "--across grad_norm_sq"),
    "zeroth-order": ("Function values only", "grad_norm_sq", "rounds", ""),
    "adaptive": ("Adaptive steps", "grad_norm_sq", "rounds", ""),
    "finite-samples": ("Noise that vanishes", "grad_norm_sq", "queries", ""),
    "saga": ("A table of gradients", "grad_norm_sq", "rounds", ""),
    "digits-neural": ("A neural network", "accuracy", "rounds", ""),
    "digits-cnn": ("Convolutions", "accuracy", "rounds", ""),
    "own-data": ("Your own table", "loss", "rounds", ""),
    "own-network": ("Your own network", "loss", "rounds", ""),
    "own-parts": ("Your own parts", "farthest", "rounds", "--with examples/own_parts.py"),
    "quadratic": ("Quadratics, for certificates", "grad_norm_sq", "rounds", ""),
}
"""The examples in the order of the page: a title, what is drawn against what, and what the command takes besides."""

HEAD = """# Gallery

<!-- Written by docs/gallery.py, `make gallery`: change that file, not this page. -->

Every example with what its command printed and what was drawn from its result. `gossamer init --example NAME` copies
one, with the data that it needs, and `gossamer init --list` lists them. Step sizes are stable ones, and tuned only
where the spec has a `[tuning]`: these are illustrations, not contests. [Fashion-MNIST](deep.md) and [training with
PyTorch](training.md) have pages of their own.

<div class="gallery" markdown>
{tiles}
</div>
"""

SECTION = """
## {title} {{ #{name} }}

{about}

![{title}]({figure}){{ width=480 }}

```console
{command}
```

??? example "What it prints"

    ```text
{printed}
    ```

??? quote "examples/{name}.toml"

    ```toml
    --8<-- "examples/{name}.toml"
    ```
"""


def main(names: list[str]) -> None:
    known = examples()
    FIGURES.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    if not names or "tutorial" in names:
        draw_the_tutorial()
    tiles, sections = [], []
    for name, (title, metric, x, more) in SHOWN.items():
        command = f"gossamer run examples/{name}.toml {more}".strip()
        if names and name not in names:
            printed = kept(name)
            if printed is None:
                continue
        else:
            printed = run(command, RUNS / name)
            curves = Study.load(RUNS / name).curves()
            last = list(curves.values())[-1]  # of several variants, the one that is furthest from the first
            figures.save(last.plot(metric, x), FIGURES / f"{name}.png")
        figure = f"assets/gallery/{name}.png"
        tiles.append(f"[![{title}]({figure}){{ loading=lazy }} {title}](#{name})")
        sections.append(
            SECTION.format(
                name=name,
                title=title,
                figure=figure,
                about=comment(known[name]),
                command=command,
                printed="\n".join(f"    {line}".rstrip() for line in printed.splitlines()),
            )
        )
        print(name, flush=True)
    PAGE.write_text(HEAD.format(tiles="\n\n".join(tiles)) + "".join(sections), encoding="utf-8")


def draw_the_tutorial() -> None:
    """Run the code on the page of the tutorial, as a reader would, and keep the figure that it writes."""
    code = re.findall(r"^```python\n(.*?)^```$", (HERE / "tutorial.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        exec(compile("\n".join(code), "tutorial.md", "exec"), {"__name__": "page"})
        os.chdir(before)
        shutil.copyfile(Path(place) / "clinics.png", FIGURES / "tutorial.png")
    print("tutorial", flush=True)


def run(command: str, out: Path) -> str:
    """What the command prints; its last line says where the result is, which is nowhere that a reader has."""
    printed = io.StringIO()
    with mock.patch.object(sys, "argv", [*command.split(), "--out", str(out)]), contextlib.redirect_stdout(printed):
        try:
            cli.main()
        except SystemExit as ended:
            if ended.code not in (0, None):
                sys.exit(f"{command} ended with {ended.code}")
    return printed.getvalue().partition("\nresult: ")[0].strip("\n")


def kept(name: str) -> str | None:
    """What the page says that an example printed; None if the page has nothing of it."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    found = re.search(rf"{{ #{name} }}.*?```text\n(.*?)\n    ```", page, re.DOTALL)
    if not found:
        return None
    return "\n".join(line.removeprefix("    ") for line in found[1].splitlines())


if __name__ == "__main__":
    main(sys.argv[1:])
