"""The qualitative claims of the paper's Section 5: each with a yes or no and the figures, from the tables made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from suffice.experiments.item import Result
from suffice.experiments.lab import Lab
from suffice.experiments.methods import FIRST

CLOSE = 1.2  # two medians are alike up to this factor
Tables = Callable[[str], Any]  # an item's table by its id; raises FileNotFoundError if it was not made
Answer = tuple[bool, str]


@dataclass(frozen=True)
class Claims:
    """All claims, from tables of this scale, or else of the largest there is, of which the answer then tells."""

    def __call__(self, lab: Lab) -> Result:
        """One row a claim; those whose tables are missing are marked so."""
        rows = []
        for claim, answer in CLAIMS.items():
            tables = _Tables(lab)
            try:
                holds, figures = answer(tables)
                words = figures + "".join(f" (`{name}` at {scale})" for name, scale in tables.borrowed.items())
                rows.append({"claim": claim, "holds": "yes" if holds else "no", "figures": words})
            except FileNotFoundError as missing:
                rows.append({"claim": claim, "holds": "not run", "figures": f"needs `{missing}`"})
            except KeyError as missing:
                rows.append({"claim": claim, "holds": "not run", "figures": f"{missing.args[0]} is left out"})
        note = f"Alike: medians of W₂ within a factor of {CLOSE}. Figures are median W₂ unless told otherwise."
        return Result({"": pd.DataFrame(rows)}, notes=(note,))


class _Tables:
    """The tables made so far; `borrowed` tells which of those read are of another scale."""

    def __init__(self, lab: Lab) -> None:
        self.own = lab.results
        self.others = [] if self.own is None else [self.own.parent / name for name in ("paper", "quick")]
        self.borrowed: dict[str, str] = {}

    def __call__(self, name: str) -> Any:
        """The table of that name."""
        if self.own is not None and (self.own / f"{name}.csv").exists():
            return pd.read_csv(self.own / f"{name}.csv")
        for folder in self.others:
            if (folder / f"{name}.csv").exists():
                self.borrowed[name] = folder.name
                return pd.read_csv(folder / f"{name}.csv")
        raise FileNotFoundError(name)


def _medians(table: Tables, group: str) -> dict[str, dict[str, float]]:
    """Median W₂ by model and method."""
    rows = table(f"accuracy-{group}")
    return {
        model: dict(zip(part["method"], part["median W2"], strict=True))
        for model, part in rows.groupby("model", sort=False)
    }


def _compared(found: dict[str, dict[str, float]], methods: tuple[str, ...]) -> str:
    return "; ".join(
        f"{model}: " + ", ".join(f"{name} {values[name]:.3g}" for name in methods) for model, values in found.items()
    )


def _embeddings(table: Tables) -> Answer:
    rows = table("mcc-sm")
    rows = rows[rows["settings"].isin(["paper's, here", "ours"])]
    least = rows.groupby("settings")["weak out"].min()
    figures = ", ".join(f"least weak MCC out of sample at {name} settings {value:.3f}" for name, value in least.items())
    return bool(rows["weak out"].min() >= 0.9), figures


def _abc_beats_regression(table: Tables) -> Answer:
    found = _medians(table, "iid")
    holds = all(max(v["ABC-SM"], v["ABC-SSM"]) <= v["ABC-FP"] * CLOSE for v in found.values())
    return holds, _compared(found, ("ABC-SM", "ABC-SSM", "ABC-FP"))


def _regression_is_worst(table: Tables) -> Answer:
    found = _medians(table, "iid")
    paper = ("Exc-SM", "Exc-SSM", "ABC-SM", "ABC-SSM", "ABC-FP", "PMC-SL", "PMC-RE")
    holds = all(v["ABC-FP"] >= max(v[name] for name in paper) for v in found.values())
    return holds, _compared(found, paper)


def _like_surrogates(table: Tables) -> Answer:
    found = _medians(table, "iid")
    pairs = [(v[one], v[other]) for v in found.values() for one in ("ABC-SM", "ABC-SSM") for other in ("PMC-SL", FIRST)]
    holds = all(max(pair) <= CLOSE * min(pair) for pair in pairs)
    return holds, _compared(found, ("ABC-SM", "ABC-SSM", "PMC-SL", FIRST))


def _exchange_after_abc(group: str) -> Callable[[Tables], Answer]:
    def answer(table: Tables) -> Answer:
        found = _medians(table, group)
        holds = all(v["Exc-SM"] / v["ABC-SM"] >= 1.0 and v["Exc-SSM"] / v["ABC-SSM"] >= 1.0 for v in found.values())
        return holds, _compared(found, ("Exc-SM", "ABC-SM", "Exc-SSM", "ABC-SSM"))

    return answer


def _objectives_agree(table: Tables) -> Answer:
    found = _medians(table, "iid") | _medians(table, "series")
    ratios = {
        f"{kind} {model}": v[f"{kind}-SSM"] / v[f"{kind}-SM"] for model, v in found.items() for kind in ("Exc", "ABC")
    }
    holds = all(1 / CLOSE <= ratio <= CLOSE for ratio in ratios.values())
    return holds, "ratio SSM to SM: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())


def _regression_is_best(table: Tables) -> Answer:
    found = _medians(table, "series")
    paper = ("Exc-SM", "Exc-SSM", "ABC-SM", "ABC-SSM", "ABC-FP", "PMC-SL", "PMC-RE")
    holds = all(v["ABC-FP"] <= min(v[name] for name in paper) for v in found.values())
    return holds, _compared(found, ("ABC-FP", "ABC-SM", "ABC-SSM"))


def _exchange_beats_surrogates(table: Tables) -> Answer:
    found = _medians(table, "series")
    pairs = [(v[one], v[other]) for v in found.values() for one in ("Exc-SM", "Exc-SSM") for other in ("PMC-SL", FIRST)]
    return all(one <= CLOSE * other for one, other in pairs), _compared(found, ("Exc-SM", "Exc-SSM", "PMC-SL", FIRST))


def _inner_steps(group: str, enough: int) -> Callable[[Tables], Answer]:
    def answer(table: Tables) -> Answer:
        rows = table(f"inner-{group}")
        most = rows["inner steps"].max()
        chosen = enough if enough in set(rows["inner steps"]) else rows["inner steps"].min()
        if chosen == most:
            raise KeyError("a larger number of inner steps")
        words, ratios = [], []
        for (model, method), part in rows.groupby(["model", "method"], sort=False):
            by_steps = part.set_index("inner steps")["median W2"]
            ratios.append(by_steps[chosen] / by_steps[most])
            words.append(f"{model} {method} {ratios[-1]:.2f}")
        return max(ratios) <= CLOSE, f"ratio of W₂ at {chosen} to {most} steps: " + ", ".join(words)

    return answer


def _rivals_need_more(table: Tables) -> Answer:
    rows = table("simulations-needed")
    rows = rows[rows["to match"] == "Exc-SM"]
    totals = pd.to_numeric(rows["total 1 obs"], errors="coerce")
    trained = rows["training"].max()
    words = [
        f"{model}: " + ", ".join(f"{m} {t}" for m, t in zip(part["method"], part["total 1 obs"], strict=True))
        for model, part in rows.groupby("model", sort=False)
    ]
    return bool(
        (totals.isna() | (totals > trained)).all()
    ), f"in all for 1 observation, {trained} for Exc-SM. " + "; ".join(words)


def _widths(table: Tables) -> dict[str, Any]:
    rows = table("lorenz-posteriors-widths")
    return {model: part.set_index("method") for model, part in rows.groupby("model", sort=False)}


def _regression_is_narrower(table: Tables) -> Answer:
    found, columns = _widths(table), [f"sd {name}" for name in ("b0", "b1", "sigma_e", "phi")]
    ratios = {
        model: (part.loc["ABC-FP", columns] / part.loc["ABC-SSM", columns]).astype(float)
        for model, part in found.items()
        if "ABC-SSM" in part.index  # quick leaves it out on the large configuration
    }
    words = "; ".join(f"{model}: " + ", ".join(f"{v:.2f}" for v in ratio) for model, ratio in ratios.items())
    return all(bool((ratio < 1).all()) for ratio in ratios.values()), f"ratio of sd, ABC-FP to ABC-SSM: {words}"


def _exchange_is_broader(table: Tables) -> Answer:
    part = _widths(table)["Lorenz96 small"]
    columns = ["sd sigma_e", "sd phi"]
    ratio = (part.loc["Exc-SSM", columns] / part.loc["ABC-SSM", columns]).astype(float)
    return bool((ratio > 1).all()), f"ratio of sd, Exc-SSM to ABC-SSM: σ_e {ratio.iloc[0]:.2f}, φ {ratio.iloc[1]:.2f}"


def _scores(*rivals: str) -> Callable[[Tables], Answer]:
    def answer(table: Tables) -> Answer:
        holds, words = True, []
        for model, part in table("lorenz-scores").groupby("model", sort=False):
            values = part.set_index("method")
            for score in ("energy median", "kernel median"):
                for rival in rivals:
                    if rival in values.index:
                        holds = holds and values.loc[rival, score] <= values.loc["ABC-FP", score]
                        words.append(f"{model} {score} {rival} {values.loc[rival, score]:.4g}")
                words.append(f"{model} {score} ABC-FP {values.loc['ABC-FP', score]:.4g}")
        return bool(holds), "; ".join(words)

    return answer


def _trends(table: Tables) -> Answer:
    rows = table("lorenz-scores-by-step")
    rows = rows[(rows["model"] == "Lorenz96 small") & (rows["method"] == "ABC-SSM")].sort_values("step")
    ends = {score: (part["median"].iloc[0], part["median"].iloc[-1]) for score, part in rows.groupby("score")}
    words = ", ".join(f"{score} {one:.3g} → {other:.3g}" for score, (one, other) in ends.items())
    return bool(
        ends["energy"][1] > ends["energy"][0] and ends["kernel"][1] < ends["kernel"][0]
    ), f"first → last step: {words}"


def _ours_is_closer(table: Tables) -> Answer:
    found = _medians(table, "iid") | _medians(table, "series")
    ratios = {model: v["Direct"] / v["Exc-SM"] for model, v in found.items()}
    return all(ratio < 1 for ratio in ratios.values()), "ratio of W₂, Direct to Exc-SM: " + ", ".join(
        f"{model} {ratio:.2f}" for model, ratio in ratios.items()
    )


CLAIMS: dict[str, Callable[[Tables], Answer]] = {
    "Statistics and natural parameters are recovered: weak MCC of SM fits is close to 1 (at least 0.9).": _embeddings,
    "iid models: ABC-SM and ABC-SSM match or beat ABC-FP.": _abc_beats_regression,
    "iid models: ABC-FP is the worst method.": _regression_is_worst,
    "iid models: ABC-SM and ABC-SSM perform as PMC-SL and PMC-RE do.": _like_surrogates,
    "iid models: Exc-SM and Exc-SSM are worse than ABC with the same fit.": _exchange_after_abc("iid"),
    "SM and SSM agree.": _objectives_agree,
    "iid models: 30 inner steps are as good as the most tried.": _inner_steps("iid", 30),
    "Series: 100 inner steps are as good as the most tried.": _inner_steps("series", 100),
    "Series: ABC-FP is the best of the paper's methods.": _regression_is_best,
    "Series: Exc-SM and Exc-SSM are worse than ABC with the same fit.": _exchange_after_abc("series"),
    "Series: Exc-SM and Exc-SSM are at least as good as PMC-SL and PMC-RE.": _exchange_beats_surrogates,
    "Rivals need more simulations than Exc-SM's training to match it.": _rivals_need_more,
    "Lorenz96: the ABC-FP posterior is narrower than that of ABC-SSM.": _regression_is_narrower,
    "Lorenz96 small: the Exc-SSM posterior is broader in σ_e and φ than that of ABC-SSM.": _exchange_is_broader,
    "Lorenz96: ABC-SSM and Exc-SSM predict better than ABC-FP by both scores.": _scores("ABC-SSM", "Exc-SSM"),
    "Lorenz96: our Direct predicts better than ABC-FP by both scores.": _scores("Direct"),
    "Lorenz96: Direct on innovations predicts better than ABC-FP by both scores.": _scores("Direct-innovations"),
    "Lorenz96 small: the energy score rises over time while the kernel score falls.": _trends,
    "Our defaults against the paper's settings at equal simulations: lower W₂ on all five models.": _ours_is_closer,
}
