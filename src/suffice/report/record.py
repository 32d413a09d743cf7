"""What was run and how to run it again, as far as it is on record."""

import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

from suffice.fitting import Fit, Training
from suffice.model import Model
from suffice.posterior import Posterior

PACKAGES = ("suffice", "jax", "numpyro", "blackjax", "equinox", "optax", "arviz", "numpy")
MOST_VALUES = 60  # of an observation that are written out
PLAIN = {
    "method": "Method",
    "sampler": "Sampler",
    "simulations": "Simulations while sampling",
    "failed": "Failed simulations",
    "stopped": "Stopped because",
}


def run_rows(post: Posterior, fit: Fit | None, model: Model | None) -> list[tuple[str, str]]:
    """Names and values: model, prior, draws, keys, simulations, training, time, versions."""
    chains, draws, _ = post.draws.shape
    weighted = "" if post.weights is None else ", weighted"
    rows = [("Parameters", ", ".join(post.names))]
    if model is not None:
        rows += [("Prior", prior_words(model)), ("Data", _data_words(model))]
    rows += [(words, _plain(post.info[name])) for name, words in PLAIN.items() if name in post.info]
    rows.append(("Draws", f"{chains} chain{'s' * (chains > 1)} of {draws}{weighted}"))
    if "seconds" in post.info:
        rows.append(("Sampling took", f"{post.info['seconds']:.3g} s"))
    if "outside_training" in post.info:
        rows.append(("Training data farther out", f"{100 * float(post.info['outside_training']):.3g}%"))
    if fit is not None:
        rows += _fit_rows(fit)
    if key := _numbers(post.info):
        rows.append(("Key of the draws", f"({key})"))
    versions = [f"{name} {version(name)}" for name in PACKAGES]
    rows.append(("Versions", ", ".join([*versions, f"Python {platform.python_version()}"])))
    return rows


def prior_words(model: Model) -> str:
    """The prior's family and its parameters, such as "Uniform(low=[1, 1], high=[3, 3])"."""
    prior = getattr(model.prior, "base_dist", model.prior)
    given = [(name, getattr(prior, name, None)) for name in prior.arg_constraints]
    values = {name: np.asarray(value) for name, value in given if value is not None and np.size(value) <= MOST_VALUES}
    if not prior.event_shape:  # one value for each parameter
        values = {name: np.broadcast_to(value, prior.batch_shape) for name, value in values.items()}
    shown = [f"{name}={_array_words(value)}" for name, value in values.items()]
    return f"{type(prior).__name__}({', '.join(shown)})"


def reproduction(post: Posterior, fit: Fit | None, model: Model | None) -> str:
    """The calls that give these draws again."""
    lines = ["import jax", "import jax.numpy as jnp", "import suffice as sf", "", ""]
    implementation = post.info.get("key", {}).get("implementation", "threefry2x32")
    lines += ["def key(*numbers):"]
    lines += [f"    return jax.random.wrap_key_data(jnp.array(numbers, 'uint32'), impl='{implementation}')", "", ""]
    about = "" if model is None else f" prior {prior_words(model)}"
    lines.append(f"model = ...  # as it was:{about or ' prior and simulator'}")
    if fit is not None:
        lines += _fit_lines(fit)
    observed = np.asarray(post.info.get("observed", []))
    if 0 < observed.size <= MOST_VALUES:
        values = np.array2string(observed, separator=", ", max_line_width=100, formatter={"all": str})
        lines.append(f"observed = jnp.array({values})")
    else:
        lines.append("observed = ...  # saved with the posterior: sf.load(path).info['observed']")
    method = post.info.get("method", "Direct")
    learned = fit is not None and method in ("Direct", "Exchange")
    sampler = f", sampler={post.info['sampler']!r}" if method == "Direct" and "sampler" in post.info else ""
    arguments = f"fit{sampler}" if learned else "..."
    iid = ", iid=True" if post.info.get("iid") else ""
    chains, draws, _ = post.draws.shape
    numbers = f", num_draws={draws}, num_chains={chains}" if post.weights is None else ""
    lines.append(f"post = sf.sample(key({_numbers(post.info)}), sf.{method}({arguments}), observed{numbers}{iid})")
    return "\n".join(lines)


def _fit_rows(fit: Fit) -> list[tuple[str, str]]:
    history, records = fit.history, fit.settings.get("simulations", [])
    kept = "" if history.best_epoch is None else f", epoch {history.best_epoch} kept"
    return [
        ("Training simulations", ", ".join(str(record.get("num")) for record in records) or "unknown"),
        ("Keys of the simulations", ", ".join(f"({_numbers(record)})" for record in records) or "unknown"),
        ("Objective", str(fit.settings.get("objective", "unknown"))),
        ("Training", f"{history.epochs} epochs{kept}, {history.seconds:.0f} s"),
        ("Key of the fit", f"({_numbers(fit.settings)})"),
    ]


def _fit_lines(fit: Fit) -> list[str]:
    records = fit.settings.get("simulations", [])
    usual = asdict(Training())
    changed = {
        name: value for name, value in fit.settings.get("training", {}).items() if value != usual.get(name, value)
    }
    training = f", training=sf.Training({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
    lines = [f"sims = sf.simulate(key({_numbers(record)}), model, {record.get('num')})" for record in records]
    lines.append(f"# objective: {fit.settings.get('objective', 'unknown')}")
    lines.append(f"fit = sf.fit(key({_numbers(fit.settings)}), model, sims{training if changed else ''})")
    return lines


def _data_words(model: Model) -> str:
    shape = " × ".join(str(length) for length in model.data_shape)
    kinds = [f"Markov of order {model.markov_order}"] if model.markov_order is not None else []
    return ", ".join([f"{shape} values", *kinds, *["exchangeable"] * model.exchangeable])


def _array_words(values: np.ndarray) -> str:
    return np.array2string(values, separator=", ", max_line_width=10_000, formatter={"all": lambda v: f"{v:.4g}"})


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _numbers(record: dict[str, Any]) -> str:
    return ", ".join(str(number) for number in record.get("key", {}).get("data", []))
