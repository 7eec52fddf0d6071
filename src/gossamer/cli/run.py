"""gossamer run."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.text import visible
from gossamer.cli import shared
from gossamer.core import InputError, brief, nearest


@shared.app.command()
def run(
    spec: shared.SpecFile,
    out: shared.Out = None,
    own: shared.With = None,
    cache: shared.Cache = True,
    across: Annotated[
        str | None, typer.Option(metavar="METRIC", help="Show this metric alone, methods by variants.")
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="LOG",
            help="Write the rows of all runs there, too: FILE.csv, FILE.jsonl, tensorboard:FOLDER, mlflow:URI, "
            "wandb:PROJECT or trackio:PROJECT.",
        ),
    ] = None,
    as_json: shared.AsJSON = False,
    devices: shared.Devices = None,
    split: shared.Split = None,
    cluster: shared.Cluster = False,
    coordinator: shared.Coordinator = None,
    processes: shared.Processes = None,
    process: shared.Process = None,
) -> None:
    """Run an experiment and save its result. The first lines say which method is ahead at equal cost.

    Every run is kept when it is done: after an interruption the same command goes on, after the end it only shows the
    result again, and with more rounds or seeds in the spec it computes what is missing.

    Examples:

        gossamer run examples/a9a-ring.toml

        gossamer run my.toml --out results/my --json

        gossamer run examples/attacked.toml --across loss

        gossamer run my.toml --log mlflow:sqlite:///runs/mlflow.db

        gossamer run my.toml --devices all

        srun gossamer run my.toml --cluster
    """
    with shared.use_devices(devices, split, shared.Meeting(cluster, coordinator, processes, process)):
        shared.load_own(own)
        from gossamer.engines.processes import check_same, is_first
        from gossamer.experiments import running
        from gossamer.experiments.tuning import warnings
        from gossamer.metrics import labels
        from gossamer.specs.spec import Spec

        known = [name for name, label in labels().items() if label.summary or label.end]
        if across is not None and across not in known:
            raise InputError(f"no metric {brief(across)} is measured; {nearest(across, known)}")
        given = Spec.read(spec)
        folder = shared.output_directory(out, Path("runs") / spec.stem)
        check_same(given.toml(), own or [])
        study = running.run(given, folder, name=spec.stem, log=log, progress=shared.progress() if is_first() else False)
    if not is_first():
        return
    table = None if across is None else study.across(across)
    summaries = {variant: result.summary() for variant, result in study.results.items()}
    rows = [{"variant": variant, **row} for variant, one in summaries.items() for row in one.table.to_dicts()]
    judged = study.verdicts()
    if as_json:
        shared.say_json({"out": str(folder), "verdicts": judged.asdict(), "algorithms": rows})
    else:
        lines = [visible(line) for line in str(judged).splitlines()]
        if lines:
            shared.say("\n".join([*lines, ""]))
        for variant, summary in summaries.items() if table is None else ():
            shared.say(f"{visible(variant)}\n{summary}\n" if variant else f"{summary}\n")
        if table is not None:
            shared.say(f"{table}\n")
        if study.tuning is not None and given.tuning is not None:
            for line in warnings(study.tuning, margin=given.tuning.margin):
                shared.say(f"! {line}")
        shared.say(
            f"result: {visible(folder)}    next: gossamer report {visible(folder)}, gossamer plot {visible(folder)}"
        )
    if all(row["seeds"] == row["diverged"] for row in rows):
        raise typer.Exit(3)
