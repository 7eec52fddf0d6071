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
from gossamer.metrics import AXES
from gossamer.results.result import Result
from gossamer.results.study import Study

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE, FIGURES, RUNS = HERE / "gallery.md", HERE / "assets" / "gallery", ROOT / "runs" / "gallery"

SHOWN = {
    "a9a-ring": (
        "The paper's problem",
        "a9a sorted by label over a ring of 20 agents, with an absolute bias that is drawn once for each agent",
        "grad_norm_sq",
        "rounds",
        "",
    ),
    "compressed": (
        "Compressed messages",
        "A tenth of the coordinates in each message: BEER, MoTEF and DoCoM reach a stationary point, CHOCO-SGD stalls",
        "grad_norm_sq",
        "bytes",
        "",
    ),
    "attacked": (
        "Attackers",
        "A growing share of the agents sends ten times its model: robust aggregation against plain averages",
        "loss",
        "rounds",
        "--across loss",
    ),
    "private": (
        "Privacy",
        "Clipped sample gradients under Gaussian noise: the smaller ε, the less accurate the model",
        "loss",
        "rounds",
        "",
    ),
    "directed": (
        "Directed graphs",
        "Methods that track settle exactly where ∇F = −ē, as on undirected graphs; SGP settles near that point",
        "grad_norm_sq",
        "rounds",
        "",
    ),
    "time-varying": (
        "Time-varying graphs",
        "One neighbour a round, in turn or at random: the floor of the static graph for a quarter of its bytes",
        "grad_norm_sq",
        "bytes",
        "",
    ),
    "faulty": (
        "Failures",
        "Links fail, agents sleep, or agents gossip in every fifth round: Biased-DMT loses time, but no accuracy",
        "grad_norm_sq",
        "rounds",
        "",
    ),
    "bursts": (
        "Failures in bursts",
        "The same share of losses one by one and in bursts of 20 rounds: Biased-DMT settles at the same point, later",
        "consensus",
        "rounds",
        "",
    ),
    "availability": (
        "Agents that come and go",
        "Each agent is online for a third of the day: Biased-DMT settles where ∇F = −ē, D-PSGD does not",
        "stationarity",
        "rounds",
        "",
    ),
    "deadline": (
        "Deadlines",
        "Rounds that close after 40 ms without late agents: stragglers cost no accuracy, and less time than waiting",
        "stationarity",
        "seconds",
        "",
    ),
    "graphs": (
        "Graphs by cost",
        "One method on nine graphs, by bytes",
        "grad_norm_sq",
        "bytes",
        "--across consensus",
    ),
    "tree": (
        "Trees",
        "RelaySGD sums along the links of a tree; RelaySGD and Biased-DMT settle where ∇F = −ē, D-PSGD does not",
        "stationarity",
        "rounds",
        "",
    ),
    "local-steps": (
        "Local steps",
        "Ten local steps between two messages; Local Biased-DMT and K-GT correct the drift",
        "grad_norm_sq",
        "bytes",
        "",
    ),
    "energy": (
        "Joules",
        "Power to compute, wait and send: ten gradients for each message cost more than they save",
        "loss",
        "joules",
        "",
    ),
    "pseudo-gradients": (
        "Pseudo-gradients",
        "Compressed gradients and local steps leave a floor that tracking does not remove; EF21 leaves none",
        "grad_norm_sq",
        "rounds",
        "--across grad_norm_sq",
    ),
    "zeroth-order": (
        "Zeroth order",
        "Forward differences with three step sizes h: the floor of ‖∇F‖² falls as h²",
        "grad_norm_sq",
        "rounds",
        "",
    ),
    "adaptive": (
        "Adaptive steps",
        "GT-Adam reaches a stationary point; decentralized AMSGrad and AdamW settle a little off it, as D-PSGD does",
        "grad_norm_sq",
        "rounds",
        "",
    ),
    "finite-samples": (
        "Variance reduction",
        "GT-SARAH and GT-SVRG take full gradients now and then, and fall below the noise floor of GT-DSGD",
        "grad_norm_sq",
        "queries",
        "",
    ),
    "saga": (
        "SAGA",
        "A table of each sample's last gradient removes the noise floor without full gradients",
        "grad_norm_sq",
        "rounds",
        "",
    ),
    "digits-neural": (
        "A neural network",
        "A perceptron on handwritten digits: ten agents on an exponential graph, two labels each",
        "accuracy",
        "rounds",
        "",
    ),
    "digits-cnn": (
        "Convolutions",
        "A small convolutional network on the same data",
        "accuracy",
        "rounds",
        "",
    ),
    "own-data": (
        "Your own table",
        "A CSV file in which a column names the agent of each row",
        "loss",
        "rounds",
        "",
    ),
    "own-network": (
        "Your own network",
        "A list of links in a file",
        "loss",
        "rounds",
        "",
    ),
    "own-parts": (
        "Your own parts",
        "An algorithm, an oracle, a network and a metric of your own, tuned and compared",
        "farthest",
        "rounds",
        "--with examples/own_parts.py",
    ),
    "quadratic": (
        "Certificates",
        "Step sizes that Theorem 1 admits: `gossamer certify examples/quadratic.toml` checks every inequality",
        "grad_norm_sq",
        "rounds",
        "",
    ),
}
"""The examples in the order of the page: title, caption, the metric and the x-axis of the figure, more options."""

HEAD = """# Gallery

<!-- Written by docs/gallery.py, `make gallery`: change that file, not this page. -->

Every example, drawn from its result. `gossamer run examples/NAME.toml` runs the example NAME, with the options shown,
if any; `gossamer init --example NAME` copies it with its data. Step sizes are stable, and tuned only where the spec has
a `[tuning]`: these are illustrations, not contests.

<div class="gallery" markdown>

{tiles}

</div>
"""

TILE = """{picture} **{title}.** {caption}. `{command}`"""


def main(names: list[str]) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    if not names or "tutorial" in names:
        draw_the_tutorial()
    tiles = []
    for name, (title, caption, metric, x, more) in SHOWN.items():
        if not names or name in names:
            run(f"gossamer run examples/{name}.toml {more}".strip(), RUNS / name)
            curves = Study.load(RUNS / name).curves()
            last = list(curves.values())[-1]  # of several variants, the one that is furthest from the first
            drawing.save(last.plot(metric, x).figure, FIGURES / f"{name}.png")
            drawing.save(draw_thumbnail(last, metric, x), FIGURES / f"{name}-small.png")
            print(name, flush=True)
        small = drawing.picture(title, f"assets/gallery/{name}-small.png")
        picture = f"[{small}](assets/gallery/{name}.png)"
        command = f"{name} {more}".strip()
        tiles.append(TILE.format(title=title, picture=picture, caption=caption, command=command))
    PAGE.write_text(HEAD.format(tiles="\n\n".join(tiles)), encoding="utf-8")


def draw_thumbnail(result: Result, metric: str, x: str) -> Figure:
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
