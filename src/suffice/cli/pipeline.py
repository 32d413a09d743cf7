"""The commands of a run: simulate, merge, fit, sample, report. Each leaves its result in the folder of the run."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from rich.table import Table

from suffice import storage
from suffice.cli.application import (
    AsJson,
    Dask,
    Folder,
    ModelName,
    Quiet,
    Resume,
    Seed,
    Workers,
    app,
    simulating,
    speaking,
)
from suffice.cli.data import observed_in
from suffice.cli.folders import RunFolder, inputs_of_fit, inputs_of_sample, stage_key
from suffice.cli.methods import AMORTISED, METHODS, method_behind, method_of
from suffice.cli.models import model_of
from suffice.diagnostics import calibrate, predictive_check
from suffice.fitting import fit
from suffice.fitting.run import default_training
from suffice.matching import PosteriorMean, ScoreMatching, SlicedScoreMatching
from suffice.posterior import Posterior
from suffice.report import judge
from suffice.report import report as write_report
from suffice.sampling import sample_each
from suffice.sampling.believing import note_doubts
from suffice.simulation import merge as join
from suffice.simulation import simulate as make_simulations

CALIBRATION = 100  # data sets to calibrate on, unless told
OBJECTIVES = {"sm": ScoreMatching, "ssm": SlicedScoreMatching, "posterior-mean": PosteriorMean}

Data = Annotated[Path, typer.Argument(help="The data: a .csv, .npy or .parquet file.")]


@app.command()
def simulate(
    model: ModelName,
    num: Annotated[int, typer.Option(help="How many simulations.", min=1)] = 10_000,
    run: Folder = Path("run"),
    seed: Seed = 0,
    shard: Annotated[
        str, typer.Option(help="i/n: the i-th of n parts, for job arrays; `suffice merge` joins them.")
    ] = "",
    workers: Workers = None,
    dask: Dask = "",
    resume: Resume = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Simulate pairs (θ, x) from prior and model, into a store that survives a kill.

    For example: `suffice simulate gamma --num 10000 --run my-run`
    """
    with speaking(quiet=quiet, as_json=as_json) as voice, simulating(workers, dask) as executor:
        folder, part = RunFolder(run, resume=resume), _shard(shard)
        made = model_of(model)
        store = folder.simulations if part is None else run / f"shard-{part[0]}-of-{part[1]}"
        stage = "simulate" if part is None else f"simulate {shard}"
        # A larger num goes on with what is there, so it is no other setting.
        folder.begin(stage, {"model": model, "seed": seed}, store)
        key = stage_key(seed, "simulate")
        sims = make_simulations(key, made, num, store=store, shard=part, executor=executor, progress=voice.progress)
        voice.say(f"{len(sims):,} simulations in {store}, {len(sims) - sims.num_good} of them failed.")
        voice.note(simulations=len(sims), good=sims.num_good, store=str(store))


@app.command()
def merge(
    shards: Annotated[list[Path], typer.Argument(help="The stores of all parts.")],
    run: Folder = Path("run"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Join the parts that a job array has simulated.

    For example: `suffice merge my-run/shard-* --run my-run`
    """
    with speaking(quiet=quiet, as_json=as_json) as voice:
        sims = join(shards, RunFolder(run).simulations, progress=voice.progress)
        voice.say(f"{len(sims):,} simulations in {RunFolder(run).simulations}.")
        voice.note(simulations=len(sims), good=sims.num_good)


@app.command(name="fit")
def fit_command(
    model: ModelName,
    run: Folder = Path("run"),
    objective: Annotated[Literal["sm", "ssm", "posterior-mean"], typer.Option(help="What to fit by.")] = "sm",
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the simulations; measured defaults if not given.")
    ] = None,
    seed: Seed = 0,
    resume: Resume = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn statistics and density from the simulations of the run.

    For example: `suffice fit gamma --run my-run`
    """
    with speaking(quiet=quiet, as_json=as_json) as voice:
        folder, made, chosen = RunFolder(run, resume=resume), model_of(model), OBJECTIVES[objective]()
        sims = storage.load(folder.need(folder.simulations, f"simulate {model} --run {run}"))
        asked = {"model": model, "objective": objective, "epochs": epochs, "seed": seed}
        training = default_training(made, chosen)
        training = training if epochs is None else replace(training, epochs=epochs)
        if not folder.begin("fit", asked | inputs_of_fit(sims), folder.fit, "fit*.npz"):
            kept = folder.checkpoint("fit")
            key = stage_key(seed, "fit")
            found = fit(key, made, sims, chosen, training=training, checkpoint=kept, progress=voice.progress)
            found.save(folder.fit)
            kept.unlink(missing_ok=True)
        found = storage.load(folder.fit)
        history = found.history
        voice.say(
            f"Fitted in {history.seconds:.0f} s: {history.epochs} epochs, epoch {history.best_epoch} kept, validation "
            f"loss {history.best_loss:.4g}. Written to {folder.fit}."
        )
        voice.note(fit=str(folder.fit), epochs=history.epochs, best_epoch=history.best_epoch, loss=history.best_loss)


@app.command(name="sample")
def sample_command(
    model: ModelName,
    data: Data,
    run: Folder = Path("run"),
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "direct",
    draws: Annotated[int, typer.Option(help="Draws of each chain.", min=1)] = 1000,
    chains: Annotated[int, typer.Option(help="Chains.", min=1)] = 4,
    iid: Annotated[bool, typer.Option("--iid", help="The rows are independent replicates given one θ.")] = False,
    each: Annotated[bool, typer.Option("--each", help="A posterior for each row.")] = False,
    workers: Workers = None,
    dask: Dask = "",
    seed: Seed = 0,
    resume: Resume = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Sample the posterior given data.

    For example: `suffice sample gamma data.csv --run my-run`
    """
    with speaking(quiet=quiet, as_json=as_json) as voice, simulating(workers, dask) as executor:
        if iid and each:
            raise ValueError("--iid and --each exclude each other: one posterior given all rows, or one for each.")
        folder, made = RunFolder(run, resume=resume), model_of(model)
        observed = observed_in(data, made, many=iid or each)
        fitted = storage.load(folder.need(folder.fit, f"fit {model} --run {run}"))
        chosen, rows = method_of(method, made, fitted, executor), observed if each else observed[None]
        for row in rows:
            chosen.observation(row, iid=iid)  # refuse it before anything is written
        asked = {"model": model, "data": str(data), "method": method, "draws": draws, "chains": chains, "seed": seed}
        asked |= {"iid": iid, "each": each} | inputs_of_sample(observed, fitted)
        paths = [folder.posterior_of(i) for i in range(len(observed))] if each else [folder.posterior]
        there = folder.begin("sample", asked, paths[-1], "posterior*.npz")
        if not there:
            key = stage_key(seed, "sample")
            found = sample_each(key, chosen, rows, num_draws=draws, num_chains=chains, iid=iid, progress=voice.progress)
            for path, posterior in zip(paths, found, strict=True):
                posterior.save(path)
        posteriors = [storage.load(path) for path in paths]
        if there:
            note_doubts(posteriors)  # as loudly as when they were made
        for path, posterior in zip(paths[:5], posteriors[:5], strict=True):
            voice.say(f"{path}:", _summary(posterior))
        if len(paths) > 5:
            voice.say(f"and {len(paths) - 5} more.")
        voice.note(
            posteriors=[
                {
                    "file": str(path),
                    "names": posterior.names,
                    "mean": posterior.mean,
                    "sd": posterior.sd,
                    "doubts": posterior.info["doubts"],
                }
                for path, posterior in zip(paths, posteriors, strict=True)
            ]
        )


@app.command(name="report")
def report_command(
    model: ModelName,
    run: Folder = Path("run"),
    row: Annotated[
        int | None,
        typer.Option(help="After `suffice sample --each`: the row, from 0 on, whose posterior it is.", min=0),
    ] = None,
    calibration: Annotated[
        int | None,
        typer.Option(
            help="Simulations on which the method of the posterior is calibrated; 0 for none. If not given, 100, but "
            "none for methods that simulate anew for each of them.",
            min=0,
        ),
    ] = None,
    workers: Workers = None,
    dask: Dask = "",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check the posterior of the run and write one HTML file: the verdict first, then what it rests on.

    For example: `suffice report gamma --run my-run`
    """
    with speaking(quiet=quiet, as_json=as_json) as voice, simulating(workers, dask) as executor:
        folder, made = RunFolder(run), model_of(model)
        each = "" if row is None else " --each"
        file = folder.need_posterior(row, f"sample {model} DATA --run {run}{each}")
        posterior: Posterior = storage.load(file)
        fitted = storage.load(folder.need(folder.fit, f"fit {model} --run {run}"))
        folder.require_sampled_from(fitted, file)
        found, method = None, method_behind(posterior)
        number = (CALIBRATION if method in AMORTISED else 0) if calibration is None else calibration
        if number:
            chosen = method_of(method, made, fitted, executor)
            key = stage_key(seed, "calibrate")
            found = calibrate(key, made, chosen, num=number, executor=executor, progress=voice.progress)
        check = predictive_check(
            stage_key(seed, "check"), made, posterior, posterior.info["observed"], executor=executor
        )
        predictive = None
        if made.markov_order is not None and not posterior.info.get("iid"):
            predictive = posterior.predictive(stage_key(seed, "check"), made, 500, executor=executor)
        path = write_report(
            posterior, path=folder.report(file), fit=fitted, model=made, check=check, predictive=predictive,
            calibration=found, title=f"Posterior of {model}",
        )  # fmt: skip
        judgement = judge(posterior, fitted, check, found)
        voice.say(f"[bold]{judgement.verdict.value}.[/bold] {' '.join(judgement.against)}", f"Written to {path}.")
        if found is not None:
            voice.say(f"{found.title}: {found.verdict}")
        elif calibration is None:
            voice.say(
                f"Not calibrated: {method} would simulate anew for each of many data sets. Give --calibration "
                f"{CALIBRATION} to have it calibrated all the same."
            )
        calibrated = None if found is None else method
        voice.note(verdict=judgement.verdict.name, against=judgement.against, calibrated=calibrated, report=str(path))


def _summary(posterior: Posterior) -> Table:
    table = posterior.summary()
    shown = Table("parameter", *table.columns)
    for name, row in zip(table.index, table.to_numpy(), strict=True):
        shown.add_row(str(name), *("–" if np.isnan(value) else f"{value:.4g}" for value in row))
    return shown


def _shard(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    first, slash, second = text.partition("/")
    if not (slash and first.isdigit() and second.isdigit()):
        raise ValueError(f"--shard is {text!r}, but must be i/n, such as 3/10 for the third of ten parts.")
    return int(first), int(second)
