"""Every Python block and console line of README and docs runs; at small size, but as it stands."""

import json
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
CLUSTER = "docs/cluster.md"  # needs one; what it calls is tested in tests/simulation
OPTIONS = {
    "check": [],
    "simulate": ["--num", "400"],
    "fit": ["--epochs", "2"],
    "sample": ["--draws", "60"],
    "report": ["--calibration", "0"],
}  # commands that are run; tests/test_cli.py runs the others, and their lines are only read here
EXAMPLES = ("gamma", "own_simulator", "time_series", "bounded_data", "many_observations")
TRAINING = sf.Training(epochs=2, batch_size=100)


class Block(NamedTuple):
    language: str
    title: str
    code: str


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a page; `title="file.py"` names a file that the reader is to write."""
    found = FENCE.findall(path.read_text(encoding="utf-8"))
    titles = [re.search(r'title="([^"]+)"', rest) for _, rest, _ in found]
    return [
        Block(language, title.group(1) if title else "", code)
        for (language, _, code), title in zip(found, titles, strict=True)
    ]


PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
RUN = [page for page in PAGES if page != CLUSTER and any(block.language == "python" for block in blocks(ROOT / page))]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Fewer simulations, epochs, draws and data sets, whatever is written; warnings of poor fits are expected."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sf, "simulate", _fewer(sf.simulate, num=400))
        patch.setattr(sf, "fit", _shorter(sf.fit))
        patch.setattr(sf, "sample", _with(sf.sample, num_draws=60))
        patch.setattr(sf, "sample_each", _with(sf.sample_each, num_draws=60, num_chains=2))
        patch.setattr(sf, "compare", _with(sf.compare, num_draws=60, num_chains=2, draws=60))
        patch.setattr(sf.diagnostics, "calibrate", _fewer(sf.diagnostics.calibrate, num=20, num_draws=60, num_chains=2))
        patch.setattr(sf, "Direct", _with(sf.Direct, warmup=20))
        patch.setattr(sf, "Exchange", _with(sf.Exchange, warmup=20, thin=1))
        folder = tmp_path_factory.mktemp("docs")
        patch.chdir(folder)
        yield folder


def _with(function: Callable[..., Any], **small: Any) -> Callable[..., Any]:
    return lambda *given, **named: function(*given, **named | small)


def _fewer(function: Callable[..., Any], num: int, **small: Any) -> Callable[..., Any]:
    def fewer(*given: Any, **named: Any) -> Any:
        return function(*(min(value, num) if isinstance(value, int) else value for value in given), **named | small)

    return fewer


def _shorter(function: Callable[..., Any]) -> Callable[..., Any]:
    def fit(*given: Any, training: sf.Training | None = None, **named: Any) -> sf.Fit:
        short = TRAINING if training is None else replace(training, epochs=2, batch_size=100)
        return function(*given, training=short, **named)

    return fit


@pytest.fixture(scope="module")
def front(small: Path) -> dict[str, Any]:
    """What the names of the first page are after its code has run: other pages go on from it."""
    names: dict[str, Any] = {}
    run([block for block in blocks(README) if block.language == "python"], README, names)
    return names


def run(code: list[Block], page: Path, names: dict[str, Any]) -> None:
    for block in code:
        exec(compile(block.code, str(page), "exec"), names)


@pytest.mark.filterwarnings("ignore::suffice.SamplingWarning", "ignore::suffice.TrainingWarning")
def test_the_first_page(front: dict[str, Any], small: Path) -> None:
    assert front["post"].draws.shape == (4, 60, 2)
    assert "elieve it" in (small / "report.html").read_text() or "Check it first" in (small / "report.html").read_text()
    assert isinstance(sf.load(small / "fit.npz"), sf.Fit)


@pytest.mark.filterwarnings("ignore::suffice.SamplingWarning", "ignore::suffice.TrainingWarning")
@pytest.mark.parametrize("page", RUN)
def test_the_code_of_a_page_runs(page: str, front: dict[str, Any], small: Path) -> None:
    for block in blocks(ROOT / page):
        if block.title:
            (small / block.title).write_text(block.code)
    run([block for block in blocks(ROOT / page) if block.language == "python"], ROOT / page, dict(front))


@pytest.mark.filterwarnings("ignore::suffice.SamplingWarning", "ignore::suffice.TrainingWarning")
def test_the_console_lines_run(front: dict[str, Any], small: Path) -> None:
    np.savetxt(small / "data.csv", np.asarray(front["observed"]))
    known: Any = get_command(app)
    for block in blocks(ROOT / "docs/command-line.md"):
        if block.title:
            (small / block.title).write_text(block.code)
        for line in block.code.splitlines() if block.language == "console" else ():
            prompt, command, name, *arguments = shlex.split(line)
            assert (prompt, command) == ("$", "suffice")
            known.commands[name].make_context(name, list(arguments))  # refuses options that there are not
            if name in OPTIONS and "--resume" not in arguments and "--shard" not in arguments:
                result = CliRunner().invoke(app, [name, *arguments, *OPTIONS[name]])  # the last option given counts
                assert result.exit_code == 0, f"{line}: {result.output}"
    assert (small / "my-run" / "report.html").is_file()


@pytest.mark.filterwarnings("ignore::suffice.SamplingWarning", "ignore::suffice.TrainingWarning")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_ends_in_a_picture(name: str, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ROOT / "examples" / f"{name}.py"
    assert len(script.read_text().splitlines()) <= 60
    monkeypatch.setattr(sys, "argv", [str(script), "--quick", "--picture", str(small / f"{name}.png")])
    runpy.run_path(str(script), run_name="__main__")
    assert (small / f"{name}.png").stat().st_size > 5000


@pytest.mark.parametrize("name", ["epidemic", "lorenz96"])
def test_a_notebook_was_executed_without_errors(name: str) -> None:
    cells = json.loads((ROOT / "examples" / f"{name}.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] == i + 1 for i, cell in enumerate(code))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) >= 3
    assert max(map(len, pictures)) < 4 / 3 * 200_000  # in base 64


def test_no_block_is_left_out() -> None:
    """Blocks are of kinds that are run, or plain text; and only the page about clusters is not run."""
    for page in [README, *(ROOT / name for name in PAGES)]:
        kinds = {block.language for block in blocks(page)}
        assert kinds <= ({"python", "bash"} if str(page).endswith(CLUSTER) else {"python", "console", "text"}), page


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    local = [target for target in targets if "://" not in target]
    missing = [target for target in local if not ((ROOT / page).parent / target).exists()]
    assert not missing
