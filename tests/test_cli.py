"""The command, as a user calls it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import suffice as sf
from suffice.abc import Rejection
from suffice.cli import app
from suffice.cli.data import observed_in
from suffice.cli.methods import METHODS, method_behind, method_of
from suffice.cli.models import MODELS, model_of

runner = CliRunner()


def call(*arguments: object, code: int = 0) -> Result:
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def refused(*arguments: object) -> str:
    """What a refused command says: a sentence, no traceback, exit code 2."""
    result = call(*arguments, code=2)
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of all stages, small."""
    folder = tmp_path_factory.mktemp("run")
    call("simulate", "gamma", "--num", 600, "--run", folder, "--quiet")
    call("fit", "gamma", "--run", folder, "--epochs", 4, "--quiet")
    np.save(folder / "data.npy", np.asarray(sf.simulate(jax.random.key(9), sf.zoo.gamma(), 1).x[0]))
    call("sample", "gamma", folder / "data.npy", "--run", folder, "--draws", 120, "--quiet")
    return folder


def test_a_run_leaves_its_settings_and_results(run: Path) -> None:
    settings = json.loads((run / "settings.json").read_text())
    assert settings["sample"]["method"] == "direct"
    assert settings["fit"]["versions"]["suffice"] == sf.__version__
    assert len(sf.load(run / "simulations")) == 600
    assert sf.load(run / "fit.npz").history.epochs == 4
    posterior = sf.load(run / "posterior.npz")
    assert posterior.draws.shape == (4, 120, 2)
    np.testing.assert_array_equal(posterior.info["observed"], np.load(run / "data.npy"))


def test_the_same_seed_gives_the_same_numbers(run: Path, tmp_path: Path) -> None:
    call("simulate", "gamma", "--num", 600, "--run", tmp_path, "--quiet")
    call("fit", "gamma", "--run", tmp_path, "--epochs", 4, "--quiet")
    call("sample", "gamma", run / "data.npy", "--run", tmp_path, "--draws", 120, "--quiet")
    np.testing.assert_array_equal(sf.load(tmp_path / "posterior.npz").draws, sf.load(run / "posterior.npz").draws)


def test_a_stage_is_done_again_only_if_told_and_only_alike(run: Path) -> None:
    assert "already has the stage 'fit'" in refused("fit", "gamma", "--run", run, "--epochs", 4)
    assert "epochs: 4 → 5" in refused("fit", "gamma", "--run", run, "--epochs", 5, "--resume")
    before = (run / "fit.npz").stat().st_mtime_ns
    assert "Fitted in" in call("fit", "gamma", "--run", run, "--epochs", 4, "--resume").output
    assert (run / "fit.npz").stat().st_mtime_ns == before


def test_a_stage_tells_that_its_inputs_have_changed(run: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.npy"
    shutil.copytree(run / "simulations", tmp_path / "simulations")
    np.save(data, np.load(run / "data.npy"))
    fit = ("fit", "gamma", "--run", tmp_path, "--epochs", 1)
    arguments = ("sample", "gamma", data, "--run", tmp_path, "--draws", 120)
    call(*fit, "--quiet")
    call(*arguments, "--quiet")
    call(*arguments, "--resume", "--quiet")
    np.save(data, 2.0 * np.load(data))
    assert "data_fingerprint: " in refused(*arguments, "--resume")

    np.save(data, 0.5 * np.load(data))
    shutil.copytree(run / "simulations", tmp_path / "other" / "simulations")
    call("fit", "gamma", "--run", tmp_path / "other", "--epochs", 1, "--seed", 1, "--quiet")
    shutil.copy(tmp_path / "other" / "fit.npz", tmp_path)
    assert "fit_fingerprint: " in refused(*arguments, "--resume")
    assert "sampled from another fit" in refused("report", "gamma", "--run", tmp_path)
    call("simulate", "gamma", "--num", 700, "--run", tmp_path, "--quiet")
    assert "simulations: 600 → 700" in refused(*fit, "--resume")
    assert "or remove fit.npz from this one" in refused(*fit, "--resume")
    (tmp_path / "fit.npz").unlink()
    call(*fit, "--quiet")
    assert sf.load(tmp_path / "fit.npz").settings["simulations"][0]["num"] == 700


def test_a_stage_that_left_nothing_is_begun_anew(tmp_path: Path) -> None:
    call("simulate", "gaussian", "--num", 200, "--run", tmp_path, "--quiet")
    assert "at least 1" in refused("fit", "gaussian", "--run", tmp_path, "--epochs", 0)
    assert "fit" not in json.loads((tmp_path / "settings.json").read_text())
    assert "Simulate from this model" in refused("fit", "ar2", "--run", tmp_path)
    call("fit", "gaussian", "--run", tmp_path, "--epochs", 1, "--quiet")
    assert json.loads((tmp_path / "settings.json").read_text())["fit"]["model"] == "gaussian"


def test_other_posteriors_are_not_made_beside_those_of_a_run(run: Path) -> None:
    np.save(run / "row.npy", np.load(run / "data.npy")[None])
    arguments = ("sample", "gamma", run / "row.npy", "--run", run, "--each")
    assert "already has the stage" in refused(*arguments)
    assert "remove posterior.npz" in refused(*arguments, "--resume")


def test_doubts_are_repeated_when_a_posterior_is_shown_again(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "fit.npz", tmp_path)
    arguments = ("sample", "gamma", run / "data.npy", "--run", tmp_path, "--draws", 30, "--json")
    told = json.loads(call(*arguments).stdout)
    assert "too few effective draws" in told["warnings"][0]
    assert json.loads(call(*arguments, "--resume").stdout)["warnings"] == told["warnings"]


def test_scripts_get_one_json_object(run: Path) -> None:
    told = json.loads(
        call("sample", "gamma", run / "data.npy", "--run", run, "--draws", 120, "--resume", "--json").stdout
    )
    np.testing.assert_allclose(told["posteriors"][0]["mean"], sf.load(run / "posterior.npz").mean)
    failed = runner.invoke(app, ["fit", "gamma", "--run", str(run), "--json"])
    assert failed.exit_code == 2
    assert "already has the stage" in json.loads(failed.stdout)["error"]
    assert json.loads(call("models", "--json").stdout)["gamma"]["shape"] == [10]


def test_shards_are_merged(tmp_path: Path) -> None:
    for i in (1, 2):
        call("simulate", "gaussian", "--num", 300, "--shard", f"{i}/2", "--run", tmp_path, "--quiet")
    call("merge", tmp_path / "shard-1-of-2", tmp_path / "shard-2-of-2", "--run", tmp_path, "--quiet")
    call("simulate", "gaussian", "--num", 300, "--run", tmp_path / "whole", "--quiet")
    whole = sf.load(tmp_path / "whole" / "simulations")
    np.testing.assert_array_equal(sf.load(tmp_path / "simulations").theta, whole.theta)
    assert "must be i/n" in refused("simulate", "gaussian", "--shard", "3", "--run", tmp_path)


def test_a_report_is_written(run: Path) -> None:
    result = call("report", "gamma", "--run", run, "--calibration", 0)
    assert "report.html" in result.output
    page = (run / "report.html").read_text()
    assert "Not looked at" in page
    assert "Predictive check" in page


def test_a_report_calibrates_the_method_of_its_posterior(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "rejection", lambda model, fit, where: Rejection(model, fit.statistics, budget=20_000))
    for name in ("settings.json", "fit.npz"):
        shutil.copy(run / name, tmp_path)
    arguments = ("report", "gamma", "--run", tmp_path)
    posterior = sf.sample(jax.random.key(0), METHODS["rejection"](sf.zoo.gamma(), sf.load(run / "fit.npz"), None),
                          np.load(run / "data.npy"))  # fmt: skip
    posterior.save(tmp_path / "posterior.npz")
    told = call(*arguments).output
    assert "Calibration of Rejection: " in told
    assert "Calibration of Rejection" in (tmp_path / "report.html").read_text()
    replace(posterior, info=posterior.info | {"method": "Annealing"}).save(tmp_path / "posterior.npz")
    told = call(*arguments).output
    assert "Check it first" in told or "Do not believe it" in told
    assert "Not calibrated: annealing would simulate anew" in " ".join(told.split())
    assert "whether Annealing is calibrated" in (tmp_path / "report.html").read_text()


def test_too_few_simulations_to_calibrate_are_refused_at_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suffice.cli.pipeline.predictive_check", None)
    monkeypatch.setattr("suffice.diagnostics.verdict.simulate", None)
    assert "give at least 20" in refused("report", "gamma", "--run", run, "--calibration", 5)


def test_a_report_takes_one_of_many_posteriors(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "fit.npz", tmp_path)
    observed = np.load(run / "data.npy")
    np.save(tmp_path / "rows.npy", np.stack([observed, 2.0 * observed]))
    call("sample", "gamma", tmp_path / "rows.npy", "--run", tmp_path, "--each", "--draws", 120, "--quiet")
    arguments = ("report", "gamma", "--run", tmp_path, "--calibration", 0)
    assert "such as --row 0 for posterior-0.npz" in refused(*arguments)
    assert "posteriors of 2 rows, counted from 0 on" in refused(*arguments, "--row", 2)
    assert "run `suffice sample gamma DATA --run" in refused("report", "gamma", "--run", tmp_path / "none")
    told = json.loads(call(*arguments, "--row", 1, "--json").stdout)
    assert told["report"] == str(tmp_path / "report-1.html")
    assert (tmp_path / "report-1.html").is_file()


def test_every_method_is_known_by_its_posteriors(run: Path) -> None:
    fit = sf.load(run / "fit.npz")
    for name in METHODS:
        kind = type(method_of(name, sf.zoo.gamma(), fit)).__name__
        assert method_behind(sf.Posterior(np.zeros((1, 1, 2)), fit.names, info={"method": kind})) == name


def test_methods_are_compared(run: Path) -> None:
    result = call("compare", "gamma", "--run", run, "--observations", 2, "--methods", "direct", "--json")
    assert json.loads(result.stdout)["direct"]["training simulations"] == 600
    assert (run / "comparison.png").exists()
    assert "There is no method 'magic'" in refused("compare", "gamma", "--run", run, "--methods", "magic")


def test_models_and_check() -> None:
    assert all(name in call("models").output for name in MODELS)
    assert "The model is ready." in call("check", "gaussian").output
    assert "There is no model 'nothing'" in refused("check", "nothing")
    assert call("--version").output.strip() == sf.__version__


USER_FILE = """
import jax, jax.numpy as jnp, numpyro.distributions as dist, suffice as sf
prior = dist.Uniform(jnp.zeros(2), jnp.ones(2)).to_event(1)
model = sf.Model(prior, lambda key, theta: theta[0] + theta[1] * jax.random.normal(key, (5,)), names=("a", "b"))
def make():
    return model
number = 3
"""


def test_models_of_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(USER_FILE)
    assert model_of(f"{file}:model").names == ("a", "b")
    assert model_of(f"{file}:make").data_shape == (5,)
    assert "has no name 'modle'. It has the models model." in refused("check", f"{file}:modle")
    assert "number in" in refused("check", f"{file}:number")
    assert "There is no file" in refused("fit", f"{tmp_path}/other.py:model")


MIXED_PRIOR = """
import jax, jax.numpy as jnp, numpyro.distributions as dist, suffice as sf
from numpyro.distributions.transforms import CatTransform, ExpTransform, IdentityTransform
both = CatTransform([ExpTransform(), IdentityTransform()], dim=-1)
prior = dist.TransformedDistribution(dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), both)
def simulator(key, theta):
    return theta[1] + theta[0] * jax.random.normal(key, (5,))
model = sf.Model(prior, simulator, names=("scale", "place"))
"""


def test_the_model_has_the_prior_that_a_file_cannot_hold(tmp_path: Path) -> None:
    (tmp_path / "mixed.py").write_text(MIXED_PRIOR)
    model = f"{tmp_path / 'mixed.py'}:model"
    (tmp_path / "data.csv").write_text("0.1,0.2,0.3,0.4,0.5\n")
    call("simulate", model, "--num", 400, "--run", tmp_path, "--quiet")
    call("fit", model, "--run", tmp_path, "--epochs", 2, "--quiet")
    fit = sf.load(tmp_path / "fit.npz")
    assert fit.prior is None
    call("sample", model, tmp_path / "data.csv", "--run", tmp_path, "--draws", 50, "--quiet")
    assert (sf.load(tmp_path / "posterior.npz").flat[:, 0] > 0).all()
    method_of("exchange", model_of(model), fit)
    with pytest.raises(ValueError, match="same support"):
        method_of("direct", sf.zoo.gamma(), fit)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("broken = unknown_name", "line 8: NameError: name 'unknown_name' is not defined"),
        ("sf.Model(prior, lambda key, theta: jnp.zeros(()))", "x must be a vector"),
        ("sf.Model(prior, lambda key, theta: jnp.zeros(3), names=('a',))", "give 2 different names"),
    ],
)
def test_a_mistake_in_a_users_file_is_a_sentence(line: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(USER_FILE + line + "\n")
    assert words in refused("fit", f"{file}:model", "--run", tmp_path)


def test_nan_from_a_users_simulator_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(USER_FILE.replace("theta[0] +", "jnp.nan * theta[0] +"))
    assert "finite" in refused("simulate", f"{file}:model", "--num", 200, "--run", tmp_path)


def test_data_is_read_from_csv_npy_and_parquet(tmp_path: Path) -> None:
    gamma, values = sf.zoo.gamma(), np.arange(1.0, 11.0)
    np.savetxt(tmp_path / "column.csv", values)
    np.savetxt(tmp_path / "row.csv", values[None], delimiter=",")
    pd.DataFrame({"x": values}).to_csv(tmp_path / "named.csv", index=False)
    pd.DataFrame({"x": values}).to_parquet(tmp_path / "x.parquet")
    for name in ("column.csv", "row.csv", "named.csv", "x.parquet"):
        np.testing.assert_array_equal(observed_in(tmp_path / name, gamma, many=False), values)
    np.save(tmp_path / "rows.npy", np.stack([values, values + 1]))
    assert observed_in(tmp_path / "rows.npy", gamma, many=True).shape == (2, 10)


def test_csv_files_may_have_semicolons(tmp_path: Path) -> None:
    gamma, values = sf.zoo.gamma(), np.arange(1.0, 11.0)
    table = pd.DataFrame([values, values + 1], columns=[f"x{i}" for i in range(10)])
    for header in (True, False):
        table.to_csv(tmp_path / "rows.csv", sep=";", index=False, header=header)
        np.testing.assert_array_equal(observed_in(tmp_path / "rows.csv", gamma, many=True), table.to_numpy())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<0.1,2\n3,4\n", "'<0.1' in row 1, column 1"),
        ("<0.1,<0.1\n3,4\n5,6\n", "'<0.1' in row 1, column 1"),
        ("1,low\n3,4\n", "'low' in row 1, column 2"),
        ("a,b\n1,2\n3,4 mg\n", "'4 mg' in row 3, column 2"),
        ("a;b\n1,5;2\n", "'1,5' in row 2, column 1"),
        ("1,5;2\n2;3\n", "'5;2' in row 1, column 2"),
        ("1 2\n3 4\n", "'1 2' in row 1, column 1"),
    ],
)
def test_a_bad_cell_is_named(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match="decimal points") as refusal:
        observed_in(tmp_path / "x.csv", sf.zoo.gamma(), many=True)
    assert words in str(refusal.value)


def test_bad_data_is_refused_in_a_sentence(run: Path, tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("1,2\n3,four\n")
    np.save(tmp_path / "short.npy", np.ones(9))
    np.save(tmp_path / "nan.npy", np.full(10, np.nan))
    np.save(tmp_path / "negative.npy", -np.ones(10))
    for name, words in {
        "none.csv": "There is no file",
        "words.csv": "not a number",
        "short.npy": "one x of this model has shape (10,)",
        "nan.npy": "is nan",
        "negative.npy": "support",
    }.items():
        assert words in refused("sample", "gamma", tmp_path / name, "--run", run, "--resume")
    assert "There is no method" in refused("sample", "gamma", run / "data.npy", "--run", run, "--method", "magic")


def test_demo(tmp_path: Path) -> None:
    output = call("demo", "--num", 500, "--folder", tmp_path).output
    assert "The model is ready." in output
    assert "Simulated 500 pairs" in output
    assert "Exchange" in output
    assert "What was found." in output
    assert (tmp_path / "report.html").exists()
