"""From an item to files, and from files to the page of results."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from suffice import storage
from suffice.experiments.cache import Cache
from suffice.experiments.item import Item, Result
from suffice.experiments.lab import Lab
from suffice.experiments.registry import ITEMS
from suffice.experiments.scales import SCALES, Scale

LARGEST_PICTURE = 200_000  # bytes
RESOLUTIONS = (110, 80, 60, 45)  # dots an inch, tried until a picture is small enough


@dataclass(frozen=True)
class Written:
    """An item's files, and what its pieces cost when they were made."""

    item: str
    scale: str
    files: tuple[Path, ...]
    seconds: float
    simulations: int


def reproduce(
    item: str,
    scale: Scale,
    *,
    out: Path,
    cache: Path,
    lasting: Path | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Written:
    """Make one item at a scale from cached pieces, and write its tables and pictures to `out`/scale/."""
    if item not in ITEMS:
        raise ValueError(f"There is no item {item!r}: `suffice reproduce --list` shows {', '.join(ITEMS)}.")
    folder, pieces = out / scale.name, Cache(cache, lasting)
    folder.mkdir(parents=True, exist_ok=True)
    found = ITEMS[item].study(Lab(scale, pieces, seed=seed, results=folder, progress=progress))
    seconds = round(float(sum(used.seconds for used in pieces.account.values())), 1)
    simulations = sum(used.simulations for used in pieces.account.values())
    files = [*_tables(item, found, folder), *_pictures(item, found, folder)]
    left_out = [f"Left out of this run: {', '.join(scale.left_out)}."] if scale.left_out else []
    record = {"seconds": seconds, "simulations": simulations, "notes": [*found.notes, *left_out], "seed": seed}
    record |= {"pictures": [path.name for path in files if path.suffix == ".png"]}
    files.append(folder / f"{item}.json")
    _write(files[-1], json.dumps(record, indent=1, ensure_ascii=False))
    return Written(item, scale.name, tuple(files), seconds, simulations)


def markdown(table: pd.DataFrame) -> str:
    """The table as markdown, numbers as they are."""
    rows = [list(map(str, table.columns)), ["---"] * len(table.columns)]
    rows += [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def write_page(path: Path, out: Path) -> None:
    """The page of results: every item at the largest scale it was made at, with what is said of it in `out`/item.md.

    Pictures go beside the page, to images/results; those that are not in `out` stay as they are there.
    """
    images = path.parent / "images" / "results"
    images.mkdir(parents=True, exist_ok=True)
    made = {item: _largest(item, out) for item in ITEMS}
    parts = [PREFACE, "## What was run\n", _overview(made), DEFECTS]
    for name, item in ITEMS.items():
        parts += [f"## {item.title}\n", f"`{name}`, {item.place}" + _label_words(item) + ".", item.remark]
        folder = made[name]
        if folder is None:
            parts.append(f"**Not run yet.** `suffice reproduce {name} --scale quick`")
            continue
        record = json.loads((folder / f"{name}.json").read_text())
        parts.append(_facts(name, folder.name, record))
        for picture in record["pictures"]:
            if (folder / picture).exists():
                shutil.copyfile(folder / picture, images / picture)
            parts.append(f"![{item.title}](images/results/{picture})")
        parts += [text.read_text() for text in sorted(folder.glob(f"{name}.md")) + sorted(folder.glob(f"{name}+*.md"))]
        parts += list(record["notes"])
        parts += [text.read_text() for text in out.glob(f"{name}.md")]
    _write(path, "\n\n".join(part.strip() for part in parts if part.strip()) + "\n")


PREFACE = """# The paper, reproduced

This page is written by `suffice reproduce --all --write docs/results.md` from the tables and pictures that were made;
every item is shown at the largest scale it was made at. `paper` has the paper's own sizes, `quick` smaller ones,
`smoke` shows only that the code runs: **its numbers mean nothing**. Seconds and simulations are those of all pieces an
item is made from; items share pieces, so they do not add up, and fits of one model that share their simulations count
them each. D1–D11 are defects of the code released with the paper;
unless a row says "as released" or ends in the number of a defect, everything here follows the paper's text.
Seconds were taken on two cores, beside other work: small ratios of them mean little.
"""
DEFECTS = """## What the released code does otherwise

None of it is copied, except where both ways are shown.

- D1: regressions of iid models are trained with one activation and used with another: `accuracy-iid`, which shows both
  ways, and `evolution-iid`.
- D2: exchange chains on Gamma and Beta have the Jacobian of the data's transformation once too often: `accuracy-iid`,
  which shows both ways, `inner-iid`, `simulations-needed`.
- D3, D4: Lorenz96 has a frozen variable, a wrong coupling, and one noise shared by all variables: all of Lorenz96.
- D5: scores take each variable's value as an observation of all: Lorenz96 scores; `lorenz-scores` shows both ways for
  the small configuration.
- D6: γ comes from simulations at one θ outside the prior: `bandwidth` shows both.
- D7: ratio estimation has reference data from a single θ: PMC-RE in `accuracy-iid`, `accuracy-series`.
- D8: Gaussian natural parameters are taken with −1/(2σ): `mcc-sm` and `mcc-ssm` show both.
- D9: training gradients of SM lack a term: every SM fit.
- D10: early stopping does not restore the weights before the loss grew: every fit.
- D11: the script that makes observations fails after the first.
"""


def _overview(made: dict[str, Path | None]) -> str:
    rows = []
    for name, folder in made.items():
        cells = {"item": f"`{name}`", "in the paper": ITEMS[name].place}
        if folder is None:
            rows.append(cells | {"scale": "not run yet", "seconds": "", "simulations": ""})
            continue
        record = json.loads((folder / f"{name}.json").read_text())
        costs = {"seconds": f"{record['seconds']:.0f}", "simulations": f"{record['simulations']:,}"}
        rows.append(cells | {"scale": folder.name} | costs)
    return markdown(pd.DataFrame(rows))


def _facts(name: str, scale: str, record: dict[str, Any]) -> str:
    warning = " Sizes too small to mean anything: see it as a sign that the code runs." if scale == "smoke" else ""
    return (
        f"`suffice reproduce {name} --scale {scale} --seed {record['seed']}`: {record['seconds']:.0f} s, "
        f"{record['simulations']:,} simulations.{warning}"
    )


def _label_words(item: Item) -> str:
    return f" ({', '.join(f'`{label}`' for label in item.labels)})" if item.labels else ""


def _largest(item: str, out: Path) -> Path | None:
    folders = [out / scale for scale in reversed(SCALES) if (out / scale / f"{item}.json").exists()]
    return folders[0] if folders else None


def _tables(item: str, found: Result, folder: Path) -> list[Path]:
    files = []
    for name, table in found.tables.items():
        stem = f"{item}-{name}" if name else item
        _write(folder / f"{stem}.csv", table.to_csv(index=False, lineterminator="\n"))
        _write(folder / (f"{item}+{name}.md" if name else f"{item}.md"), markdown(table))
        files += [folder / f"{stem}.csv", folder / (f"{item}+{name}.md" if name else f"{item}.md")]
    return files


def _pictures(item: str, found: Result, folder: Path) -> list[Path]:
    files = []
    for name, drawn in found.figures.items():
        files.append(folder / (f"{item}-{name}.png" if name else f"{item}.png"))
        _save(drawn, files[-1])
    return files


def _save(drawn: Figure, path: Path) -> None:
    """A picture of no more than `LARGEST_PICTURE` bytes."""
    for resolution in RESOLUTIONS:
        with storage.atomic(path) as file:
            drawn.savefig(file, dpi=resolution, format="png")
        if path.stat().st_size <= LARGEST_PICTURE:
            return


def _write(path: Path, text: str) -> None:
    with storage.atomic(path) as file:
        file.write(text.encode())


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value).replace("|", "\\|")
