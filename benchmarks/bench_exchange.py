"""Exchange MCMC: how fast it is and how good its posteriors are, by kernel and number of inner steps.

    python benchmarks/bench_exchange.py speed
    python benchmarks/bench_exchange.py accuracy [--models gaussian gamma beta ar2 ma2] [--fits paper|default|exact]
    python benchmarks/bench_exchange.py lorenz

`speed`: inner random-walk steps a second for the paper's networks, 10-30-50-50-20-3 of the iid models and the window
network of AR(2), over 100 observations, as a multiple of one chain in numpy, one step at a time, and as a fraction of
what the machine's matrix products would allow.

`accuracy`: 100 fresh observations; W₂ to the exact posterior (1,000 draws of each, as in the paper's study of inner
steps), error of the posterior mean, ratio of standard deviations, effective draws a second. "paper": the paper's
networks and settings, one chain of 20,000 steps; "default": default networks and `Exchange`; "exact": the exact
statistics and natural parameters in place of networks (iid models), which leaves the inner chain's bias alone.
`--outer` chooses the proposal for θ of the latter two.

`lorenz`: Lorenz96 small, 500 inner steps and 200 bridges, one observation.

Fits are kept in `.cache` and used again: the default ones are those of `accuracy_direct.py`, seed 0, the paper's those
of `suffice reproduce --scale paper`.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import suffice as sf
from accuracy_direct import cached_fit
from accuracy_fits import paper_fit
from suffice.family.envelope import envelope_of
from suffice.fitting import Fit, History

CACHE = Path(".cache") / "bench_exchange"


def network_fit(name: str) -> Fit:
    """The paper's network for a model as it begins: speed does not depend on its weights."""
    model = getattr(sf.zoo, name)()
    sims = sf.simulate(jax.random.key(0), model, 2000)
    family = sf.ExponentialFamily.paper(jax.random.key(1), name).with_charts(model, sims.theta, sims.x)
    y = jax.vmap(family.data_chart.forward)(jnp.asarray(sims.x))
    chart = model.parameter_chart(sims.theta)
    return Fit(family, model.names, History.empty(), {}, model.prior, chart, envelope_of(family, y))


def operations(network: Any) -> int:
    """Floating-point operations of the products of matrices in one pass."""
    if isinstance(network, sf.statistics.Mlp):
        return 2 * sum(layer.weight.size for layer in network.layers)
    num_windows = network.data_shape[0] - network.order
    return num_windows * operations(network.window) + operations(network.outer)


def in_numpy(network: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The network on one y, in numpy."""
    if isinstance(network, sf.statistics.Mlp):
        layers = [(np.asarray(layer.weight).T, np.asarray(layer.bias)) for layer in network.layers]

        def mlp(y: np.ndarray) -> np.ndarray:
            for weight, bias in layers[:-1]:
                y = np.logaddexp(0.0, y @ weight + bias)
            weight, bias = layers[-1]
            return y @ weight + bias

        return mlp
    window, outer, order = in_numpy(network.window), in_numpy(network.outer), network.order

    def series(y: np.ndarray) -> np.ndarray:
        rows = np.lib.stride_tricks.sliding_window_view(y, order + 1)
        return outer(np.concatenate([y[:order], window(rows).sum(axis=0)]))

    return series


def numpy_steps_a_second(fit: Fit, num_steps: int) -> float:
    """One chain, one step at a time, in numpy."""
    statistics, (size,) = in_numpy(fit.family.statistics), fit.data_shape
    generator, weights = np.random.default_rng(0), np.array([0.3, -0.2, 1.0], np.float32)
    y = np.zeros(size, np.float32)
    value = weights @ statistics(y)
    start = time.perf_counter()
    for _ in range(num_steps):
        proposed = y + 0.1 * generator.normal(size=size).astype(np.float32)
        new = weights @ statistics(proposed)
        if np.log(generator.uniform()) < new - value:
            y, value = proposed, new
    return num_steps / (time.perf_counter() - start)


def matrix_product_rate() -> float:
    """Floating-point operations a second of a large product of matrices in float32."""
    matrix = jax.random.normal(jax.random.key(0), (1024, 1024))
    product = jax.jit(lambda a: a @ a)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        jax.block_until_ready(product(matrix))
        times.append(time.perf_counter() - start)
    return float(2 * 1024**3 / np.median(times))


def speed() -> None:
    """Print steps a second, by network, number of chains and inner steps."""
    print(f"{'model':9} {'chains':>6} {'inner':>6} {'steps a second':>15} {'× numpy':>9} {'of matrix products':>19}")
    for name, draws, numpy_steps in (("gaussian", 300, 3000), ("ar2", 30, 300)):
        fit = network_fit(name)
        flops, eager = operations(fit.family.statistics), numpy_steps_a_second(fit, numpy_steps)
        observed = sf.simulate(jax.random.key(2), getattr(sf.zoo, name)(), 100).x
        for num_chains in (1, 4):
            for inner_steps in (30, 100):
                method = sf.Exchange(fit, inner_steps=inner_steps, warmup=0, thin=1)
                rates, limits = [], []
                for turn in range(4):
                    limits.append(matrix_product_rate() / flops)
                    num = 20 if turn == 0 else draws
                    found = sf.sample_each(jax.random.key(3), method, observed, num_draws=num, num_chains=num_chains)
                    rates.append(100 * num_chains * num * inner_steps / found[0].info["seconds"])
                rate, limit = np.median(rates[1:]), np.median(limits)
                print(
                    f"{name:9} {num_chains:6} {inner_steps:6} {rate:15.3g} {rate / eager:9.0f} {rate / limit:19.2f}",
                    flush=True,
                )
        print(f"{name}: one chain in numpy {eager:.3g} steps a second; a network pass has {flops} operations")


def fit_of(name: str, kind: str) -> Fit:
    """The fit of that kind, from the cache if it is there."""
    if kind == "exact":
        sys.path.insert(0, str(Path(__file__).parent.parent))
        from tests.exact_families import exact_fit

        return exact_fit(name)
    return paper_fit(name, "SM") if kind == "paper" else cached_fit(name, seed=0)


def accuracy(
    models: list[str], kind: str, settings: list[tuple[str, int]], num: int, num_draws: int, outer: Any
) -> None:
    """Print one line for each model and setting."""
    print(
        f"{'model':9} {'kernel':12} {'inner':>5} {'W2':>7} {'mean error':>11} {'in sds':>9} {'sd ratio':>9} "
        f"{'ESS/s':>7} {'s':>6}"
    )
    for name in models:
        model = getattr(sf.zoo, name)()
        fit = fit_of(name, kind)
        observed = sf.simulate(jax.random.key(777), model, num).x
        exact = [sf.zoo.exact_posterior(model, row) for row in observed]
        references = [post.resample(jax.random.key(i), 1000).flat for i, post in enumerate(exact)]
        for kernel, inner_steps in settings:
            chosen: dict[str, Any] = {"kernel": kernel, "inner_steps": inner_steps}
            if kind == "paper":
                method = sf.Exchange(fit, **chosen, warmup=10_000, thin=1, outer="random-walk", start="centre")
                run: dict[str, Any] = {"num_draws": 10_000, "num_chains": 1}
            else:
                method, run = sf.Exchange(fit, **chosen, outer=outer), {"num_draws": num_draws, "num_chains": 4}
            found = sf.sample_each(jax.random.key(4), method, observed, **run)
            distances = [
                sf.diagnostics.wasserstein(post.thinned(1000), reference)
                for post, reference in zip(found, references, strict=True)
            ]
            errors = [np.linalg.norm(post.mean - other.mean) for post, other in zip(found, exact, strict=True)]
            biases = [(post.mean - other.mean) / other.sd for post, other in zip(found, exact, strict=True)]
            ratios = np.median([post.sd / other.sd for post, other in zip(found, exact, strict=True)], axis=0)
            ess = np.sum([post.convergence.ess_bulk.min() for post in found])
            seconds = found[0].info["seconds"]
            print(
                f"{name:9} {kernel:12} {inner_steps:5} {np.median(distances):7.3f} {np.median(errors):11.4f} "
                f"{np.sqrt(np.mean(np.square(biases))):9.3f} "
                f"{np.round(ratios, 2)!s:>9} {ess / seconds:7.0f} {seconds:6.0f}",
                flush=True,
            )


def lorenz(num_draws: int) -> None:
    """Lorenz96 small with a default fit, one observation."""
    path, model = CACHE / "lorenz96-small.npz", sf.zoo.lorenz96("small")
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        sims = sf.simulate(jax.random.key(10), model, 10_000)
        sf.fit(jax.random.key(12), model, sims, training=sf.Training(epochs=30, batch_size=200)).save(path)
    observed = sf.simulate(jax.random.key(777), model, 1)
    method = sf.Exchange(sf.load(path), inner_steps=500, bridges=200, warmup=num_draws, thin=1)
    post = sf.sample(jax.random.key(4), method, observed.x[0], num_draws=num_draws)
    seconds = post.info["seconds"]
    print(f"{num_draws} + {num_draws} steps of 4 chains: {seconds:.0f} s; truth {observed.theta[0]}")
    print(post.summary().round(3).to_string())
    print({name: round(float(np.mean(post.info[name])), 3) for name in post.info if "acceptance" in name})


def main() -> None:
    """Print the table asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["speed", "accuracy", "lorenz"])
    parser.add_argument("--models", nargs="+", default=["gaussian", "gamma", "beta", "ar2", "ma2"])
    parser.add_argument("--fits", choices=["paper", "default", "exact"], default="default")
    parser.add_argument("--kernels", nargs="+", default=["random-walk", "mala", "hmc"])
    parser.add_argument("--inner", nargs="+", type=int, default=[10, 30, 100, 200])
    parser.add_argument("--observations", type=int, default=100)
    parser.add_argument("--draws", type=int, default=500, help="of each of 4 chains; lorenz: after as many")
    parser.add_argument("--outer", choices=["guided", "adaptive", "random-walk"])
    given = parser.parse_args()
    warnings.simplefilter("ignore", sf.SamplingWarning)
    if given.table == "speed":
        speed()
    elif given.table == "accuracy":
        settings = [(kernel, inner) for kernel in given.kernels for inner in given.inner]
        accuracy(given.models, given.fits, settings, given.observations, given.draws, given.outer)
    else:
        lorenz(given.draws)


if __name__ == "__main__":
    main()
