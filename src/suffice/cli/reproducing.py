"""The command `reproduce`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from rich.table import Column, Table

from suffice.cli.application import AsJson, Quiet, Seed, Voice, app, speaking


@app.command()
def reproduce(
    items: Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="Items of `--list`.")] = None,
    scale: Annotated[str, typer.Option(help="How much is computed: smoke, quick or paper.")] = "smoke",
    show: Annotated[bool, typer.Option("--list", help="Show all items with what they cost, and stop.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Make all items.")] = False,
    out: Annotated[Path, typer.Option(help="The folder that tables and pictures go to.")] = Path("runs/reproduced"),
    cache: Annotated[Path, typer.Option(help="The folder of shared pieces.")] = Path(".cache/experiments"),
    lasting: Annotated[
        Path | None, typer.Option(help="A second folder, of small pieces that took long, to be kept for good.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="A method to leave out, everywhere (Exc-SSM) or of one model (ma2/Exc-SSM)."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="A markdown page to write of all that was made so far, at any scale.")
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make tables and figures of the paper anew: simulations, fits and posteriors are cached and shared.

    For example: `suffice reproduce mcc-sm --scale quick`
    """
    from suffice.experiments import ITEMS, SCALES, write_page
    from suffice.experiments import reproduce as make

    _keep_programs(cache)
    with speaking(quiet=quiet, as_json=as_json) as voice:
        if show:
            _list(voice)
            return
        if scale not in SCALES:
            raise ValueError(f"There is no scale {scale!r}: there are {', '.join(SCALES)}.")
        size = _without(SCALES[scale], without or [])
        chosen = _chosen(items or [], everything=everything, page=write is not None)
        for name in chosen:
            voice.say(f"{name}: {ITEMS[name].title} …")
            made = make(name, size, out=out, cache=cache, lasting=lasting, seed=seed, progress=voice.progress)
            voice.say(f"  {made.seconds:.0f} s, {made.simulations:,} simulations; {made.files[0]}")
            voice.note(**{name: {"files": made.files, "seconds": made.seconds, "simulations": made.simulations}})
        if write is not None:
            write_page(write, out)
            voice.say(f"Written: {write}")


def _keep_programs(cache: Path) -> None:
    """Keep compiled programs with the pieces, unless they are kept elsewhere: a killed run finds them again."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", str(cache.absolute() / "compiled"))
        config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def _without(scale: Any, left_out: list[str]) -> Any:
    """The scale without these methods."""
    from suffice.experiments.methods import LABELS, OUR_METHODS, PAPER_METHODS

    methods = PAPER_METHODS + OUR_METHODS
    known = {*methods, *(f"{model}/{method}" for model in LABELS for method in methods)}
    unknown = [name for name in left_out if name not in known]
    if unknown:
        raise ValueError(
            f"There is no method {', '.join(map(repr, unknown))} to leave out: there are {', '.join(methods)}, each of "
            f"them also of one model alone, such as ma2/Exc-SSM, of {', '.join(LABELS)}."
        )
    return replace(scale, left_out=tuple(left_out))


def _chosen(items: list[str], *, everything: bool, page: bool) -> list[str]:
    from suffice.experiments import ITEMS

    unknown = [name for name in items if name not in ITEMS]
    if unknown:
        raise ValueError(f"There is no item {', '.join(map(repr, unknown))}: there are {', '.join(ITEMS)}.")
    if not items and not everything and not page:
        raise ValueError("No item was named. Give one or more of `suffice reproduce --list`, or --all.")
    return list(ITEMS) if everything else items


def _list(voice: Voice) -> None:
    from suffice.experiments import ITEMS, SCALES

    table = Table(Column("item", no_wrap=True), "in the paper", "what it shows", *SCALES)
    for name, item in ITEMS.items():
        table.add_row(name, item.place, item.title, *item.cost)
        facts = {"place": item.place, "labels": item.labels, "title": item.title, "kind": item.kind}
        voice.note(**{name: facts | {"cost": dict(zip(SCALES, item.cost, strict=True))}})
    voice.say(table)
