"""The command, as a user calls it."""

from typer.testing import CliRunner

import suffice
from suffice.cli import MODELS, app

runner = CliRunner()


def test_demo() -> None:
    result = runner.invoke(app, ["demo", "--num", "500"])
    assert result.exit_code == 0, result.output
    assert "The model is ready." in result.output
    assert "Simulated 500 pairs" in result.output
    assert "exact mean" in result.output
    assert "4,000 draws by NUTS" in result.output
    assert "demo" in runner.invoke(app, ["--help"]).output


def test_the_same_seed_gives_the_same_demo() -> None:
    outputs = [runner.invoke(app, ["demo", "--num", "500", "--seed", "4"]).output for _ in range(2)]
    timed = ("Simulated", "Fitted", "take about")
    first, second = ([line for line in out.splitlines() if not any(t in line for t in timed)] for out in outputs)
    assert first == second


def test_models() -> None:
    result = runner.invoke(app, ["models"])
    assert all(name in result.output for name in MODELS)


def test_check() -> None:
    assert runner.invoke(app, ["check", "gaussian"]).exit_code == 0
    missing = runner.invoke(app, ["check", "nothing"])
    assert missing.exit_code == 2
    assert "There is no model 'nothing'" in missing.output


def test_version() -> None:
    assert runner.invoke(app, ["--version"]).output.strip() == suffice.__version__
