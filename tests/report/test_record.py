"""A report names what was run, and the calls it gives are the ones that were made."""

import ast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from tests.conjugate import Sampler, model
from tests.exact_families import exact_fit

import suffice as sf
from suffice.fitting import History, Training
from suffice.report.record import prior_words, reproduction, run_rows

OBSERVED = np.linspace(-1, 1, 10).astype(np.float32)


def fit_of(training: dict[str, object]) -> sf.Fit:
    fit, losses = exact_fit("gamma"), np.array([3.0, 2.0, 1.0])
    course = History(losses, np.arange(1, 4), losses, 2, 1.0, "", None)
    record = {"num": 10, "key": {"data": [4, 5]}}
    settings = {"simulations": [record], "key": {"data": [6, 7]}, "objective": "ScoreMatching()", "training": training}
    return sf.Fit(fit.module, fit.names, course, settings)


def test_priors_are_named_with_their_parameters() -> None:
    uniform = dist.Uniform(jnp.ones(2), jnp.array([3.0, 2.5])).to_event(1)
    assert prior_words(sf.Model(uniform, lambda key, theta: theta)) == "Uniform(low=[1, 1], high=[3, 2.5])"
    assert prior_words(model()) == "Normal(loc=[0, 0], scale=[1, 1])"


def test_what_was_run_has_model_prior_keys_simulations_time_and_versions() -> None:
    post = sf.sample(jax.random.key(3), Sampler(), OBSERVED)
    rows = dict(run_rows(post, fit_of({}), model()))
    assert rows["Parameters"] == "a, b"
    assert rows["Prior"] == prior_words(model())
    assert rows["Data"] == "10 values"
    assert rows["Draws"] == "4 chains of 1000"
    assert rows["Key of the draws"] == "(0, 3)"
    assert rows["Training simulations"] == "10"
    assert rows["Keys of the simulations"] == "(4, 5)"
    assert rows["Key of the fit"] == "(6, 7)"
    assert rows["Training"] == "3 epochs, epoch 2 kept, 1 s"
    assert rows["Sampling took"].endswith(" s")
    assert f"jax {jax.__version__}" in rows["Versions"]


def test_the_calls_to_reproduce_are_python_and_give_the_same_draws() -> None:
    post = sf.sample(jax.random.key(3), Sampler(), OBSERVED, num_draws=200, num_chains=3)
    code = reproduction(post, None, model())
    names: dict[str, object] = {}
    exec(code.split("post = ")[0], names)
    key, observed = names["key"], np.asarray(names["observed"])
    assert callable(key)
    np.testing.assert_array_equal(observed, OBSERVED)
    assert "sf.sample(key(0, 3), sf.Sampler(...), observed, num_draws=200, num_chains=3)" in code
    again = sf.sample(key(0, 3), Sampler(), observed, num_draws=200, num_chains=3)
    np.testing.assert_array_equal(again.draws, post.draws)


def test_only_settings_that_differ_from_the_usual_ones_are_repeated() -> None:
    post = sf.Posterior(np.zeros((1, 4, 2)), ("a", "b"), info={"method": "Direct", "sampler": "smc", "iid": True})
    code = reproduction(post, fit_of({"epochs": 3, "batch_size": Training().batch_size}), None)
    ast.parse(code)
    assert "sims = sf.simulate(key(4, 5), model, 10)" in code
    assert "fit = sf.fit(key(6, 7), model, sims, training=sf.Training(epochs=3))" in code
    assert "sf.Direct(fit, sampler='smc'), observed, num_draws=4, num_chains=1, iid=True)" in code
    assert "training=" not in reproduction(post, fit_of({}), None)
