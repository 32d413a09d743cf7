"""Nothing of the paper is missing, and every scale can run every item."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from suffice.cli import app
from suffice.experiments import ITEMS, SCALES
from suffice.experiments.claims import CLAIMS
from suffice.experiments.published import ITERATIONS_TO_MATCH, MCC
from suffice.experiments.scales import IID, LORENZ, SERIES

# Every \label of a table or figure in the paper's text and appendix, in its order; the diagram holds no result.
PAPER_LABELS = {
    "Tab:priors",
    "Tab:MCC_toy",
    "fig:posteriors_exp_fam_models",
    "fig:boxplots_exp_fam_models",
    "fig:posteriors_AR2_MA2",
    "fig:boxplots_AR2_MA2",
    "fig:Lorenz_posteriors",
    "fig:SRs",
    "fig:NN_derivatives_time",
    "Tab:archit_exp_fam_models",
    "Tab:archit_AR2",
    "Tab:archit_MA2",
    "Tab:archit_Lorenz96_small",
    "Tab:archit_Lorenz96_large",
    "Tab:hyperparam_exp",
    "Tab:MCC_toy_SSM",
    "fig:statistics_exp_fam_models",
    "fig:statistics_exp_fam_models_SSM",
    "Tab:ExcSM_time_exp_fam",
    "fig:boxplots_inner_MCMC_step",
    "Tab:ExcSM_time_timeseries",
    "fig:boxplots_inner_MCMC_step_arma",
    "Table:num_sim",
    "Fig:wass_dist_iter_exp_fam_models",
    "Fig:wass_dist_iter_arma_models",
    "fig:Lorenz_validation_timestep",
}
CHECKS = {"bandwidth", "corrected", "block-switch", "claims"}  # said in the text, in no numbered table or figure


def test_no_table_or_figure_of_the_paper_is_missing() -> None:
    labels = [label for item in ITEMS.values() for label in item.labels]
    assert set(labels) == PAPER_LABELS
    assert len(labels) == len(set(labels))
    assert {name for name, item in ITEMS.items() if not item.labels} == CHECKS


def test_the_map_of_the_paper_agrees() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "paper-map.md").read_text(encoding="utf-8").splitlines()
    for name, item in ITEMS.items():
        (row,) = [line for line in lines if line.endswith(f"| `suffice reproduce {name}` |")]
        assert row.startswith(f"| {item.place} |")
        assert all(f"`{label}`" in row for label in item.labels)


def test_items_are_frozen_settings() -> None:
    for name, item in ITEMS.items():
        assert name == item.id
        assert is_dataclass(item.study)
        for field in fields(item.study):
            with pytest.raises(AttributeError):
                setattr(item.study, field.name, None)
    assert list(ITEMS)[-1] == "claims"  # reads the tables of the others


def test_the_list_names_every_item() -> None:
    shown = json.loads(CliRunner().invoke(app, ["reproduce", "--list", "--json"]).stdout)
    assert {label for item in ITEMS for label in shown[item]["labels"]} == PAPER_LABELS
    words = CliRunner().invoke(app, ["reproduce", "--list"]).stdout
    assert all(name in words for name in ITEMS)


def test_the_paper_scale_is_the_papers() -> None:
    paper = SCALES["paper"]
    assert (paper.iid, paper.series, paper.lorenz) == (IID, SERIES, LORENZ)
    assert (paper.observations, paper.simulations, paper.epochs) == (100, 20_000, (None, None, None, None))
    assert (paper.exchange, paper.inner_steps, paper.chosen_inner) == ((10_000, 10_000), (10, 30, 100, 200), (30, 100))
    assert (paper.particles, paper.iterations, paper.surrogate) == (1000, 100, (1000, 10))
    assert (paper.synthetic, paper.ratio, paper.predicted) == (100, 1000, 1000)
    for scale in SCALES.values():
        assert list(scale.measured) == sorted(set(scale.measured))
        assert (scale.measured[0], scale.measured[-1]) == (1, scale.iterations)


def test_published_numbers_cover_the_models() -> None:
    assert set(ITERATIONS_TO_MATCH) == set(IID + SERIES)
    assert {key[:2] for key in MCC} == {(kind, name) for kind in ("SM", "SSM") for name in IID}
    assert len(CLAIMS) >= 15


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "There is no item 'nonsense'"),
        (["priors", "--scale", "huge"], "There is no scale 'huge'"),
        ([], "No item was named"),
    ],
)
def test_refusals_are_sentences(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["reproduce", *arguments])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
