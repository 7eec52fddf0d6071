"""Write docs/gallery.md: every example with its command and what is drawn from its result.

python docs/gallery.py [NAME …]      # draws all of them, or some; the page has all

Finished runs in runs/gallery are not run again.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

import drawing
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from gossamer import cli
from gossamer.cli.init import comment, examples
from gossamer.metrics import AXES
from gossamer.results.result import Result
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

Every example with its command and what is drawn from its result. `gossamer init --example NAME` copies one, with the
data that it needs. Step sizes are stable, and tuned only where the spec has a `[tuning]`: these are illustrations, not
contests. [Fashion-MNIST](deep.md) and [training with PyTorch](training.md) have pages of their own.

<div class="gallery" markdown>
{tiles}
</div>
"""

SECTION = """
## {title} {{ #{name} }}

{about}

{picture}

```console
{command}
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
        if not names or name in names:
            run(command, RUNS / name)
            curves = Study.load(RUNS / name).curves()
            last = list(curves.values())[-1]  # of several variants, the one that is furthest from the first
            drawing.save(last.plot(metric, x).figure, FIGURES / f"{name}.png")
            drawing.save(drawn_small(last, metric, x), FIGURES / f"{name}-small.png")
            print(name, flush=True)
        picture = drawing.picture(title, f"assets/gallery/{name}.png", "width=480")
        small = drawing.picture(title, f"assets/gallery/{name}-small.png", "loading=lazy")
        tiles.append(f"[{small} {title}](#{name})")
        sections.append(
            SECTION.format(name=name, title=title, picture=picture, about=comment(known[name]), command=command)
        )
    PAGE.write_text(HEAD.format(tiles="\n\n".join(tiles)) + "".join(sections), encoding="utf-8")


def drawn_small(result: Result, metric: str, x: str) -> Figure:
    """Draw a thumbnail: the curves alone, in heavy lines, with large type and few ticks."""
    figure = Figure(figsize=(2.4, 1.8), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    result.plot(metric, x, ax=axes)
    for line in axes.get_lines():
        line.set(linewidth=1.5, markersize=0)
    for text in list(axes.texts):
        text.remove()
    axes.set(xlabel=AXES[x].short, ylabel="")
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(numticks=4))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.tick_params(labelsize=10)
    axes.set_xlabel(axes.get_xlabel(), fontsize=10)
    return figure


def draw_the_tutorial() -> None:
    """Run the code on the page of the tutorial, as a reader would, and keep the figure that it writes."""
    page = (HERE / "tutorial.md").read_text("utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    files = re.findall(r'^```\w+ title="([\w.-]+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place, mock.patch.object(sys, "path", [place, *sys.path]):
        os.chdir(place)
        for name, text in files:
            Path(name).write_text(text, encoding="utf-8")
        exec(compile("\n".join(code), "tutorial.md", "exec"), {"__name__": "page"})
        os.chdir(before)
        shutil.copyfile(Path(place) / "clinics.png", FIGURES / "tutorial.png")
    print("tutorial", flush=True)


def run(command: str, out: Path) -> None:
    with mock.patch.object(sys, "argv", [*command.split(), "--out", str(out)]):
        try:
            cli.main()
        except SystemExit as ended:
            if ended.code not in (0, None):
                sys.exit(f"{command} ended with {ended.code}")


if __name__ == "__main__":
    main(sys.argv[1:])
