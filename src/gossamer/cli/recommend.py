"""gossamer recommend."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.text import visible
from gossamer.cli import shared


@shared.app.command()
def recommend(
    spec: shared.SpecFile,
    seconds: Annotated[float | None, typer.Option(help="The budget: seconds, by the clock.")] = None,
    sent: Annotated[float | None, typer.Option("--bytes", help="The budget: bytes that an agent sends.")] = None,
    target: Annotated[
        float | None,
        typer.Option(help="Find what reaches this value at the least cost, within the budget or the spec's rounds."),
    ] = None,
    clock: Annotated[
        str | None, typer.Option(metavar="PRESET", help="The links [default: those of the spec's clock, or internet]")
    ] = None,
    criterion: Annotated[
        str | None,
        typer.Option(help="The criterion, loss or grad_norm_sq [default: that of the spec's \\[tuning], or loss]"),
    ] = None,
    matters: Annotated[
        float | None, typer.Option(help="The smallest difference that matters, as a share [default: 0.01 for losses]")
    ] = None,
    degree: Annotated[int, typer.Option(help="To how many others an agent may send in a round.")] = 4,
    method: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Try only this; may be given several times.")
    ] = None,
    graph: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Try only this; may be given several times.")
    ] = None,
    keep: Annotated[int, typer.Option(help="How many go on from each stage to the next.")] = 6,
    settings: Annotated[
        int, typer.Option(help="How many settings a stage tries for each hyper-parameter of a method.")
    ] = 8,
    seeds: Annotated[int, typer.Option(help="Seeds of the finalists; doubled twice at most.")] = 5,
    seed: Annotated[int, typer.Option(help="Another one draws other samples.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="The answer's directory [default: runs/NAME-recommend, after the spec]")
    ] = None,
    own: shared.With = None,
    cache: shared.Cache = True,
    as_json: shared.AsJSON = False,
) -> None:
    """Find what to run: which method, graph, compressor, local steps and numbers do best in a budget.

    All methods that suit are tuned on the same samples with equal budgets, in stages: the best go on to the next. The
    finalists run on other seeds, until it is decided which differences matter. The simplest method is among them, and
    kept where nothing is better; of methods that tie the simplest is the answer. The answer is a ranking with
    intervals, pareto.png, eliminated.txt, and winner.toml, which `gossamer run` takes. After an interruption the same
    command goes on.

    Examples:

        gossamer recommend my.toml --clock internet --seconds 600

        gossamer recommend my.toml --bytes 5e6 --method biased-dmt --method beer --json

        gossamer recommend my.toml --target 0.36 --seconds 600
    """
    shared.load_own(own)
    from gossamer.experiments.recommend import recommend as search

    folder = shared.output_directory(out, Path("runs") / f"{spec.stem}-recommend")
    with shared.resumable():
        found = search(
            spec,
            seconds=seconds,
            bytes=sent,
            target=target,
            clock=clock,
            criterion=criterion,
            matters=matters,
            degree=degree,
            methods=method,
            graphs=graph,
            keep=keep,
            settings=settings,
            seeds=seeds,
            seed=seed,
            out=folder,
            progress=shared.progress(),
            say=lambda text: print(visible(text, keep="\n"), file=sys.stderr, flush=True),
        )
    if as_json:
        shared.say_json(found.asdict())
        return
    shared.say(found)
    brought = "".join(f" --with {visible(file)}" for file in own or ())
    shared.say(
        f"\nfigure: {visible(folder / 'pareto.png')}    next: gossamer run {visible(folder / 'winner.toml')}{brought}"
    )
