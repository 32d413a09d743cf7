"""The commands `models` and `check`."""

import typer
from rich.table import Table

from suffice.cli.application import AsJson, Dask, ModelName, Quiet, Workers, app, simulating, speaking
from suffice.cli.models import MODELS, model_of
from suffice.simulation import check as trial


@app.command()
def models(as_json: AsJson = False) -> None:
    """List the embedded models: their parameters, and the shape of their data.

    For example: `suffice models`
    """
    with speaking(as_json=as_json) as voice:
        table = Table("model", "parameters", "shape of x", "likelihood")
        for name, make in MODELS.items():
            model = make()
            known = model.log_likelihood is not None
            table.add_row(
                name, ", ".join(model.names), " × ".join(map(str, model.data_shape)), "known" if known else "–"
            )
            voice.note(**{name: {"parameters": model.names, "shape": model.data_shape, "likelihood": known}})
        voice.say(table)


@app.command()
def check(
    model: ModelName, workers: Workers = None, dask: Dask = "", quiet: Quiet = False, as_json: AsJson = False
) -> None:
    """Try a model out and say what was seen; exit code 1 if there is a problem.

    For example: `suffice check my_model.py:model`
    """
    with speaking(quiet=quiet, as_json=as_json) as voice, simulating(workers, dask) as executor:
        found = trial(model_of(model), executor=executor)
        voice.say(str(found))
        voice.note(ok=found.ok, problems=found.problems)
    raise typer.Exit(0 if found.ok else 1)
