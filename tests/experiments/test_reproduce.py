"""Items at the smallest scale: they run, share pieces, go on from the cache, and give the same tables again."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from suffice.cli import app
from suffice.experiments import ITEMS, SCALES, reproduce, write_page
from suffice.experiments.cache import Cache, Record, fingerprint
from suffice.experiments.claims import CLAIMS
from suffice.experiments.embeddings import aligned
from suffice.experiments.evolution import _reached
from suffice.experiments.lab import Lab
from suffice.experiments.mathematics import second_by_autodiff, second_by_forward
from suffice.experiments.writing import LARGEST_PICTURE, markdown
from suffice.family.networks import Mlp

FITTED = ("mcc-sm", "embeddings-sm")  # two fits, shared
FIGURES = tuple(name for name, item in ITEMS.items() if item.kind == "figure")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Tables and pictures of all items, and the cache they were made from."""
    out, cache = tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("cache")
    result = CliRunner().invoke(app, ["reproduce", "--all", "--out", str(out), "--cache", str(cache), "--quiet"])
    assert result.exit_code == 0, result.output
    return out / "smoke", cache


def test_items_leave_tables_and_small_pictures(folders: tuple[Path, Path]) -> None:
    out, _ = folders
    for name in ITEMS:
        assert len(pd.read_csv(out / f"{name}.csv")) > 0
        assert (out / f"{name}.md").read_text().startswith("| ")
    for name in FIGURES:
        assert (out / f"{name}.png").stat().st_size < LARGEST_PICTURE


def test_a_run_from_the_cache_gives_the_same_bytes(folders: tuple[Path, Path], tmp_path: Path) -> None:
    out, cache = folders
    before = sorted(path.name for path in cache.iterdir())
    for name in (*FITTED, "accuracy-series", "lorenz-scores"):
        reproduce(name, SCALES["smoke"], out=tmp_path, cache=cache, progress=False)
        for end in ("csv", "md", "json"):
            assert (tmp_path / "smoke" / f"{name}.{end}").read_bytes() == (out / f"{name}.{end}").read_bytes()
    assert sorted(path.name for path in cache.iterdir()) == before


def test_a_run_from_nothing_gives_the_same_numbers(folders: tuple[Path, Path], tmp_path: Path) -> None:
    name = "inner-iid"  # simulations, two fits, chains and distances
    reproduce(name, SCALES["smoke"], out=tmp_path, cache=tmp_path / "cache", progress=False)
    again, before = (pd.read_csv(out / f"{name}.csv") for out in (tmp_path / "smoke", folders[0]))
    pd.testing.assert_frame_equal(again, before, rtol=1e-3)
    assert (again["median W2"] > 0).all()
    reproduce(name, SCALES["smoke"], out=tmp_path / "other", cache=tmp_path / "cache", seed=1, progress=False)
    other = pd.read_csv(tmp_path / "other" / "smoke" / f"{name}.csv")
    assert not np.allclose(other["median W2"], before["median W2"], rtol=1e-3)


def test_items_share_pieces(folders: tuple[Path, Path]) -> None:
    out, cache = folders
    assert len(list(cache.glob("fit-gamma-*SM-*.npz"))) == 4  # the paper's and ours, by SM and by SSM
    records = [json.loads((out / f"{name}.json").read_text()) for name in FITTED]
    assert records[0]["seconds"] == records[1]["seconds"] > 0
    assert records[0]["simulations"] == 2 * SCALES["smoke"].simulations


def test_what_the_checks_check(folders: tuple[Path, Path]) -> None:
    out, _ = folders
    corrected = pd.read_csv(out / "corrected.csv")
    change, spread = corrected["largest change of the difference"], corrected["spread of transformed"]
    assert (change.astype(float) < 1e-9 * spread.astype(float)).all()
    switch = pd.read_csv(out / "block-switch.csv")
    assert (switch["switch of its order"].astype(float) < 1e-12).all()
    assert (switch["switch of order one less"].astype(float) > 1e-9).all()


def test_published_numbers_stand_beside_ours(folders: tuple[Path, Path]) -> None:
    table = pd.read_csv(folders[0] / "mcc-sm.csv").set_index(["embedding", "settings"])
    assert table.loc[("natural", "published"), "weak out"] == 0.967
    assert table.loc[("statistics", "ours"), "weak out"] <= 1


def test_the_page_tells_what_was_not_run(folders: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "made" / "smoke"
    shutil.copytree(folders[0], out)
    for made in out.glob("accuracy-iid*"):
        made.unlink()
    write_page(tmp_path / "results.md", out.parent)
    page = (tmp_path / "results.md").read_text()
    assert all(f"`{name}`" in page for name in ITEMS)
    assert "| `accuracy-iid` | Figure 3 | not run yet |" in page
    assert "![Learned and exact embeddings, SM](images/results/embeddings-sm.png)" in page
    assert (tmp_path / "images" / "results" / "embeddings-sm.png").exists()


def test_claims_without_their_tables_are_not_answered(folders: tuple[Path, Path], tmp_path: Path) -> None:
    table = pd.read_csv(folders[0] / "claims.csv").set_index("claim")
    assert len(table) == len(CLAIMS)
    assert table["holds"].iloc[0] in ("yes", "no")
    empty = Lab(SCALES["smoke"], Cache(tmp_path), results=tmp_path, progress=False)
    assert (ITEMS["claims"].study(empty).tables[""]["holds"] == "not run").all()


def _accuracy(direct: float, exchange: float, regression: float) -> pd.DataFrame:
    medians = {"Direct": direct, "Exc-SM": exchange, "Exc-SSM": exchange, "ABC-SM": 0.2, "ABC-SSM": 0.2}
    medians |= {"ABC-FP": regression, "PMC-SL": 0.2, "PMC-RE": 0.2, "PMC-RE-first": 0.2}
    return pd.DataFrame([{"model": "Gamma", "method": name, "median W2": value} for name, value in medians.items()])


@pytest.mark.parametrize(("regression", "worst", "best"), [(0.5, "yes", "no"), (0.1, "no", "yes")])
def test_claims_follow_the_tables(tmp_path: Path, regression: float, worst: str, best: str) -> None:
    for group in ("iid", "series"):
        _accuracy(0.1, 0.3, regression).to_csv(tmp_path / f"accuracy-{group}.csv", index=False)
    lab = Lab(SCALES["smoke"], Cache(tmp_path / "cache"), results=tmp_path, progress=False)
    found = ITEMS["claims"].study(lab).tables[""].set_index("claim")["holds"]
    assert found["iid models: ABC-FP is the worst method."] == worst
    assert found["Series: ABC-FP is the best of the paper's methods."] == best
    assert found["iid models: Exc-SM and Exc-SSM are worse than ABC with the same fit."] == "yes"
    assert (
        found["Our defaults against the paper's settings at equal simulations: lower W₂ on all five models."] == "yes"
    )
    assert found["SM and SSM agree."] == "yes"


def test_claims_borrow_tables_of_another_scale_and_say_so(tmp_path: Path) -> None:
    for scale, value in (("quick", 0.4), ("smoke", 0.1)):
        (tmp_path / scale).mkdir()
        _accuracy(0.1, 0.3, value).to_csv(tmp_path / scale / "accuracy-iid.csv", index=False)
    lab = Lab(SCALES["paper"], Cache(tmp_path / "cache"), results=tmp_path / "paper", progress=False)
    found = ITEMS["claims"].study(lab).tables[""].set_index("claim")
    row = found.loc["iid models: ABC-FP is the worst method."]
    assert row["holds"] == "yes"  # at quick; at smoke it would be no
    assert row["figures"].endswith("(`accuracy-iid` at quick)")


def test_lasting_pieces_outlive_the_cache(tmp_path: Path) -> None:
    made = []

    def inner(_: Path) -> tuple[Record, int]:
        made.append("inner")
        return Record({"a": np.arange(3)}, {}), 5

    def ask(cache: Cache) -> Record:
        return cache.fetch("outer", {}, lambda _: (cache.fetch("inner", {}, inner), 3), lasts=True)

    first, second = (Cache(tmp_path / name, tmp_path / "lasting") for name in ("one", "two"))
    for cache in (first, second):
        np.testing.assert_array_equal(ask(cache).arrays["a"], np.arange(3))
    assert made == ["inner"]
    assert first.account == second.account
    assert sorted(used.simulations for used in second.account.values()) == [3, 5]
    second.fetch("inner", {}, inner)  # its cost lasted, the piece itself did not
    assert made == ["inner", "inner"]


def test_the_page_says_what_is_said_of_an_item(folders: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(folders[0], tmp_path / "smoke")
    (tmp_path / "embeddings-sm.md").write_text("They agree.\n")
    (tmp_path / "smoke" / "embeddings-sm.png").unlink()  # kept beside the page alone
    write_page(tmp_path / "results.md", tmp_path)
    page = (tmp_path / "results.md").read_text()
    section = page.split("## Learned and exact embeddings, SM")[1].split("\n## ")[0]
    assert section.strip().endswith("They agree.")
    assert "embeddings-sm.png" in section


def test_methods_can_be_left_out(folders: tuple[Path, Path], tmp_path: Path) -> None:
    _, cache = folders
    words = ["reproduce", "accuracy-series", "--out", str(tmp_path), "--cache", str(cache), "--quiet"]
    result = CliRunner().invoke(app, [*words, "--without", "PMC-SL", "--without", "Exc-SM"])
    assert result.exit_code == 0, result.output
    assert set(pd.read_csv(tmp_path / "smoke" / "accuracy-series.csv")["method"]) == {"ABC-FP", "Direct"}
    record = json.loads((tmp_path / "smoke" / "accuracy-series.json").read_text())
    assert record["notes"][-1] == "Left out of this run: PMC-SL, Exc-SM."
    result = CliRunner().invoke(app, [*words, "--without", "ar2/ABC-FP", "--without", "ma2/Direct"])
    assert result.exit_code == 0, result.output
    left = set(pd.read_csv(tmp_path / "smoke" / "accuracy-series.csv")["method"])
    assert left == {"Exc-SM", "PMC-SL", "Direct"}
    refused = CliRunner().invoke(app, [*words, "--without", "magic"])
    assert refused.exit_code == 2
    assert "There is no method 'magic' to leave out" in " ".join(refused.output.split())


def test_settings_decide_which_piece_it_is(tmp_path: Path) -> None:
    cache, made = Cache(tmp_path), []

    def make(_: Path) -> tuple[Record, int]:
        made.append(1)
        return Record({"a": np.arange(3)}, {"b": 2}), 7

    for settings in ({"x": 1}, {"x": 1}, {"x": 2}):
        piece = cache.fetch("piece", settings, make)
        assert piece.values == {"b": 2}
    assert len(made) == 2
    assert fingerprint({"x": 1}) != fingerprint({"x": 2})
    assert sum(used.simulations for used in cache.account.values()) == 14
    next(tmp_path.glob("*.json")).unlink()  # killed between the two files: made again
    for settings in ({"x": 1}, {"x": 2}):
        Cache(tmp_path).fetch("piece", settings, make)
    assert len(made) == 3


def test_pieces_of_pieces_are_in_the_account_once(tmp_path: Path) -> None:
    def inner(_: Path) -> tuple[Record, int]:
        return Record({}, {}), 5

    def outer(cache: Cache) -> tuple[Record, int]:
        cache.fetch("inner", {"n": 0}, inner, keep=True)
        return cache.fetch("inner", {"n": 0}, inner, keep=True), 3

    for _ in range(2):  # made, then from the cache: the same account
        cache = Cache(tmp_path)
        for name in ("one", "two"):
            cache.fetch(name, {}, lambda _: outer(cache))  # noqa: B023
        assert sorted(used.simulations for used in cache.account.values()) == [3, 3, 5]


def test_scales_know_fits_and_posteriors_apart(tmp_path: Path) -> None:
    smoke = Lab(SCALES["smoke"], Cache(tmp_path), progress=False)
    longer = Lab(replace(SCALES["smoke"], exchange=(40, 40)), Cache(tmp_path), progress=False)
    assert smoke.fit_settings("gamma", "SM") == longer.fit_settings("gamma", "SM")
    assert smoke.method_settings("gamma", "Exc-SM", None) != longer.method_settings("gamma", "Exc-SM", None)
    assert smoke.method_settings("gamma", "ABC-SM", None) == longer.method_settings("gamma", "ABC-SM", None)


def test_iterations_to_match() -> None:
    curve = np.array([[4.0, 3.0, 1.0], [6.0, 2.0, 1.5], [5.0, 2.5, 9.0]])
    record = Record({"curve": curve, "iterations": np.array([1, 2, 5]), "simulations": np.array([10, 20, 50])})
    assert _reached(record, 2.5, "ABC-SM", 100)["iterations"] == 2
    assert _reached(record, 2.4, "ABC-SM", 100)["total 3 obs"] == 250
    assert _reached(record, 1.6, "PMC-SL", 100)["total 100 obs"] == 5000
    assert _reached(record, 1.4, "PMC-SL", 100)["iterations"] == "–"
    more = Record({"curve": np.array([[1.0], [2.0], [3.0], [8.0], [0.0]])})  # the first iteration, five observations
    assert _reached(record, 2.4, "PMC-RE", 100, more) == _reached(record, 9.0, "PMC-RE", 100) | {"observations": 5}
    assert _reached(record, 1.9, "PMC-RE", 100, more)["iterations"] == 5
    assert _reached(record, 1.9, "PMC-RE", 100, more)["observations"] == 3


def test_both_ways_to_second_derivatives_agree(float64: None) -> None:
    network, y = Mlp(jax.random.key(0), (4,), 3, (6, 5)), jnp.linspace(-1.0, 1.0, 4)

    def all_ways(y: jax.Array) -> tuple[jax.Array, ...]:
        exact = jnp.diagonal(jax.hessian(network)(y), axis1=1, axis2=2)
        return exact, second_by_forward(network, y), second_by_autodiff(network, y)

    exact, forward, autodiff = jax.jit(all_ways)(y)
    assert np.abs(exact).max() > 1e-4
    np.testing.assert_allclose(forward, exact, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(autodiff, exact, rtol=1e-9, atol=1e-12)


def test_embeddings_are_aligned_up_to_a_linear_map() -> None:
    exact = np.random.default_rng(0).normal(size=(40, 2))
    shown, mapped = aligned(3.0 + exact @ np.array([[1.0, 2.0], [0.5, -1.0]]), exact)
    np.testing.assert_allclose(shown, mapped, atol=1e-9)


def test_markdown_escapes() -> None:
    text = markdown(pd.DataFrame([{"a": "x|y", "b": 20_000}]))
    assert text == "| a | b |\n| --- | --- |\n| x\\|y | 20,000 |\n"
