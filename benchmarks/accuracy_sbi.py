"""`Direct` against sbi on the same simulations and observations.

    python benchmarks/accuracy_sbi.py [--models gaussian gamma beta ar2 ma2] [--seeds 3] [--methods npe npe-cnn nle]

The simulations, fits and observations are those of `accuracy_direct.py accuracy`: 10,000 simulations, validation
included, and 100 fresh observations of each model and seed. The error is that of the posterior mean against the exact
one, root mean squared, for each parameter; seconds of training follow. sbi runs in an environment of its own
(`--python`, else one is made in `.cache/sbi`, which takes gigabytes); what it found is kept in `.cache/accuracy_sbi`.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np

import suffice as sf
from accuracy_direct import cached_fit

CACHE = Path(".cache") / "accuracy_sbi"


def sbi_python() -> str:
    """An interpreter that has sbi, made if there is none."""
    home = Path(".cache") / "sbi"
    python = home.resolve() / "bin" / "python"
    if not (home / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "sbi"], check=True)
        (home / "ready").touch()
    return str(python)


def peer(method: str, folder: Path, python: str) -> dict[str, np.ndarray]:
    """The moments that sbi found, from the cache if they are there."""
    path = folder / f"{method}.npz"
    if not path.exists():
        script = Path(__file__).resolve().parent / "sbi_peers.py"
        subprocess.run([python, script, method, "."], check=True, stdout=subprocess.DEVNULL, cwd=folder)
    return dict(np.load(path))


def measure(name: str, seed: int, methods: list[str], python: str, num: int = 100) -> None:
    """Print a line for each method."""
    model, folder = getattr(sf.zoo, name)(), CACHE / f"{name}-{seed}"
    observed = sf.simulate(jax.random.key(5000 + seed), model, num).x
    if not (folder / "data.npz").exists():
        folder.mkdir(parents=True, exist_ok=True)
        sims = sf.simulate(jax.random.split(jax.random.key(1000 + seed))[0], model, 10_000)
        low, high = (np.asarray(bound) for bound in (model.prior.base_dist.low, model.prior.base_dist.high))
        np.savez(folder / "data.npz", theta=sims.theta, x=sims.x, observed=observed, low=low, high=high)
    exact = [sf.zoo.exact_posterior(model, row) for row in observed]
    fit = cached_fit(name, seed)
    direct = [sf.Direct(fit).grid(row) for row in observed]
    rows = {"Direct": (np.array([post.mean for post in direct]), np.array([post.sd for post in direct]))}
    seconds = {"Direct": fit.history.seconds}
    for method in methods:
        if method == "npe-cnn" and not model.markov_order:
            continue
        found = peer(method, folder, python)
        rows[method], seconds[method] = (found["mean"], found["sd"]), float(found["training"])
    for method, (mean, sd) in rows.items():
        errors = np.sqrt(np.mean([(a - post.mean) ** 2 for a, post in zip(mean, exact, strict=True)], axis=0))
        ratios = np.median([a / post.sd for a, post in zip(sd, exact, strict=True)], axis=0)
        numbers = " ".join(f"{error:7.4f}" for error in errors) + "  " + " ".join(f"{ratio:5.2f}" for ratio in ratios)
        print(f"{name:9} {seed:4} {method:8} {numbers} {seconds[method]:6.0f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["gaussian", "gamma", "beta", "ar2", "ma2"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=["npe", "npe-cnn", "nle"], help="npe-cnn: of series only")
    parser.add_argument("--python", help="of an environment that has sbi")
    given = parser.parse_args()
    python = given.python or sbi_python()
    print(f"{'model':9} seed {'method':8} {'RMSE of the mean':15}  {'sd ratio':11} {'fit s':>6}")
    for seed in range(given.seeds):
        for name in given.models:
            measure(name, seed, given.methods, python)


if __name__ == "__main__":
    main()
