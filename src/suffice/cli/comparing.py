"""The command `compare`."""

from pathlib import Path
from typing import Annotated

import jax
import typer
from rich.table import Table

from suffice import plot, storage
from suffice.cli.application import AsJson, Dask, Folder, ModelName, Quiet, Seed, Workers, app, simulating, speaking
from suffice.cli.folders import RunFolder
from suffice.cli.methods import METHODS, method_of
from suffice.cli.models import model_of
from suffice.compare import compare as run_comparison
from suffice.simulation import simulate


@app.command()
def compare(
    model: ModelName,
    run: Folder = Path("run"),
    methods: Annotated[
        str, typer.Option(help=f"Names with commas between, of {', '.join(METHODS)}.")
    ] = "direct,exchange",
    observations: Annotated[int, typer.Option(help="How many fresh observations.", min=1)] = 20,
    budget: Annotated[int | None, typer.Option(help="Simulations for each observation, at most.")] = None,
    workers: Workers = None,
    dask: Dask = "",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Give fresh observations of the model to several methods with the fit of the run, and measure what comes out.

    For example: `suffice compare gamma --run my-run --methods direct,annealing --budget 20000`
    """
    with speaking(quiet=quiet, as_json=as_json) as voice, simulating(workers, dask) as executor:
        folder, made = RunFolder(run), model_of(model)
        fitted = storage.load(folder.need(folder.fit, f"fit {model} --run {run}"))
        chosen = {name: method_of(name, made, fitted, executor) for name in methods.split(",")}
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 100))
        fresh = simulate(keys[0], made, observations, executor=executor, progress=False)
        found = run_comparison(keys[1], made, fresh, chosen, budget=budget, progress=voice.progress)
        table = found.table()
        shown = Table("method", *table.columns)
        for name, row in table.iterrows():
            shown.add_row(str(name), *(f"{value:.4g}" for value in row))
        picture = run / "comparison.png"
        plot.comparison(found).savefig(picture, dpi=150)
        table.to_csv(run / "comparison.csv")
        voice.say(shown, f"Written to {run / 'comparison.csv'} and {picture}.")
        voice.note(**table.to_dict(orient="index"))
