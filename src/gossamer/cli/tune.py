"""gossamer tune."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gossamer.basics.text import visible
from gossamer.cli import shared
from gossamer.core import InputError


@shared.app.command()
def tune(
    spec: Annotated[Path, typer.Argument(help="The experiment, a TOML file with a [tuning] section.")],
    out: shared.Out = None,
    write: Annotated[Path | None, typer.Option(help="Write a spec with the numbers that were chosen.")] = None,
    variant: Annotated[
        str | None, typer.Option(help="The variant to write, if choices differ between variants.")
    ] = None,
    replicate: Annotated[
        int | None, typer.Option(help="The replicate to write, if choices differ between replicates.")
    ] = None,
    force: Annotated[bool, shared.flag("--force", "Overwrite the file of --write.")] = False,
    own: shared.With = None,
    cache: shared.Cache = True,
    as_json: shared.AsJSON = False,
    devices: shared.Devices = None,
    split: shared.Split = None,
) -> None:
    """Choose hyper-parameters by the spec's [tuning], without the final runs, and print what was tried.

    The settings of each algorithm are shown as a grid with the criterion's values, or as a list of the ten best; the
    chosen one has a star. A line at the end names each method whose best value is the last that was tried, and each
    whose optimum is hardly resolved.

    Examples:

        gossamer tune my.toml

        gossamer tune my.toml --write tuned.toml
    """
    shared.load_own(own)
    import polars as pl

    from gossamer.basics.files import write as write_file
    from gossamer.experiments import running, tuning
    from gossamer.specs.spec import Spec

    if write is None and (variant is not None or replicate is not None):
        raise InputError("--variant and --replicate say whose choice to --write: give a file to write as well.")
    if write is not None:
        shared.check_place(write)
        if os.path.lexists(write) and not force:
            raise InputError(f"{visible(write)} exists: choose another name, or overwrite it with --force.")
    given = Spec.read(spec)
    folder = shared.output_directory(out, Path("runs") / spec.stem)
    with shared.use_devices(devices, split):
        table = running.tune_spec(given, folder, progress=shared.progress())
    if write is not None:
        chosen = tuning.apply_tuning(given, table, variant=variant, replicate=replicate)
        rows = table if variant is None else table.filter(pl.col("variant") == variant)
        rows = rows if replicate is None else rows.filter(pl.col("replicate") == replicate)
        try:
            write.parent.mkdir(parents=True, exist_ok=True)
            write_file(write, tuning.format_spec(chosen, write, str(spec), rows).encode())
        except OSError as error:
            raise InputError(f"cannot write {visible(write)}: {error.strerror or error}.") from error
    if as_json:
        found = {(one.variant, one.replicate, one.algorithm): one for one in tuning.searches(table)}
        rows = table.to_dicts()
        for row in rows:
            if row["chosen"]:
                search = found[row["variant"], row["replicate"], row["algorithm"]]
                row |= {"on_edge": search.on_edge(), "change": search.change}
        shared.say_json(rows)
        return
    shared.show(*tuning.overview(table))
    for search in tuning.searches(table):
        if search.replicate == 0:  # the others have tables of the same kind, and --json has them all
            again = " (replicate 0)" if table["replicate"].n_unique() > 1 else ""
            shared.say(f"\n{search.title}, {search.chosen['criterion']}{again}")
            shared.show(*tuning.lay_out(search))
    assert given.tuning is not None
    for line in tuning.warnings(table, margin=given.tuning.margin):
        shared.say(f"! {line}")
    if write is not None:
        brought = "".join(f" --with {visible(file)}" for file in own or ())
        shared.say(f"tuned: {visible(write)}    next: gossamer run {visible(write)}{brought}")
