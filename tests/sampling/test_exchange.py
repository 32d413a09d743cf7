"""Exchange MCMC: exact where the family is, and honest where it is not."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import suffice as sf
from suffice.grid import GridPosterior
from suffice.sampling import RandomWalk, chains
from suffice.sampling.believing import note_doubts
from suffice.sampling.kernels import KERNELS, Kernel, run_kernel
from tests.exact_families import exact_fit

pytestmark = pytest.mark.usefixtures("optimised")

quiet = pytest.mark.filterwarnings("ignore::suffice.SamplingWarning")


@cache
def observations(name: str, num: int = 20) -> np.ndarray:
    """Fresh data of a zoo model."""
    return sf.simulate(jax.random.key(5), getattr(sf.zoo, name)(), num, progress=False).x


@cache
def references(name: str, num: int = 20) -> list[GridPosterior]:
    """The exact posteriors of them."""
    return [sf.zoo.exact_posterior(getattr(sf.zoo, name)(), row) for row in observations(name)[:num]]


def errors(posteriors: list[sf.Posterior], exact: list[GridPosterior]) -> np.ndarray:
    """Errors of posterior means and sds in Monte Carlo standard errors, (observation, 2 p)."""
    measures = [posterior.convergence for posterior in posteriors]
    return np.array(
        [
            np.concatenate([(one.mean - other.mean) / m.mcse_mean, (one.sd - other.sd) / m.mcse_sd])
            for one, other, m in zip(posteriors, exact, measures, strict=True)
        ]
    )


def sampled(name: str, method: sf.Exchange, num: int, **settings: Any) -> list[sf.Posterior]:
    """Posteriors of the first `num` observations."""
    arguments = {"num_draws": 300, "progress": False} | settings
    return sf.sample_each(jax.random.key(1), method, observations(name)[:num], **arguments)


@quiet
@pytest.mark.parametrize("name", ["gaussian", "gamma", "beta"])
def test_posteriors_are_exact_with_exact_statistics(name: str) -> None:
    method = sf.Exchange(exact_fit(name), inner_steps=300, warmup=500, thin=4)
    found = errors(sampled(name, method, 20, num_draws=200), references(name))
    assert np.abs(found).max() < 4
    assert 0.6 < np.sqrt(np.mean(found**2)) < 1.4


@quiet
def test_a_second_jacobian_would_be_found_out() -> None:
    method = sf.Exchange(exact_fit("gamma", jacobians=2), inner_steps=100, warmup=500, thin=2)
    found = errors(sampled("gamma", method, 4), references("gamma", 4))
    assert np.abs(found).max() > 6


@quiet
@pytest.mark.parametrize(("kernel", "bridges"), [("hmc", 5)])
def test_kernels_and_bridges_are_exact(kernel: Any, bridges: int) -> None:
    method = sf.Exchange(exact_fit("gaussian"), inner_steps=30, kernel=kernel, bridges=bridges)
    posteriors = sampled("gaussian", method, 4)
    assert np.abs(errors(posteriors, references("gaussian", 4))).max() < 4
    assert ("bridge_acceptance" in posteriors[0].info) == (bridges > 0)


@quiet
def test_guided_proposals_are_exact() -> None:
    method = sf.Exchange(exact_fit("gaussian", normalised=True), inner_steps=10, kernel="hmc", warmup=400, thin=2)
    posteriors = sampled("gaussian", method, 20, num_draws=200)
    assert posteriors[0].info["outer"] == "guided"
    found = errors(posteriors, references("gaussian"))
    assert np.abs(found).max() < 4
    assert 0.6 < np.sqrt(np.mean(found**2)) < 1.4


@quiet
def test_a_wrong_guide_costs_draws_and_nothing_else() -> None:
    fit = exact_fit("gamma", normalised=True)
    wrong = eqx.tree_at(lambda part: part.polynomial, fit.normaliser, replace_fn=lambda terms: terms + 1.0)
    method = sf.Exchange(replace(fit, normaliser=wrong), inner_steps=10, kernel="hmc", warmup=400)
    assert np.abs(wrong(jnp.array([1.5, 1.5])) - wrong(jnp.array([2.5, 2.5]))) > 3  # far from what it was
    found = errors(sampled("gamma", method, 4), references("gamma", 4))
    assert np.abs(found).max() < 4


@quiet
def test_no_bridges_are_the_algorithm_without_bridging() -> None:
    fit = exact_fit("gamma")
    method = sf.Exchange(fit, inner_steps=7, warmup=0, thin=1, outer="random-walk")
    chain = method.settled(10).chain()
    y = jax.vmap(fit.family.data_chart.forward)(jnp.asarray(observations("gamma")[:1]))[0]
    state = chain.init(jax.random.key(0), y)

    def plain(key: jax.Array, u: jax.Array) -> jax.Array:
        keys = jax.random.split(key, 4)
        proposed = u + 0.5 * jax.random.normal(keys[0], u.shape)
        theta, theta_new = chain.chart.inverse(u), chain.chart.inverse(proposed)
        density = fit.family.log_density
        x, _ = run_kernel(RandomWalk(), keys[1], lambda y: density(y, theta_new), y, jnp.float32(0.1), 7)
        prior = [chain.prior.log_prob(t) + chain.chart.log_det(v) for t, v in ((theta_new, proposed), (theta, u))]
        log_ratio = density(y, theta_new) - density(y, theta) + density(x, theta) - density(x, theta_new)
        accepted = jnp.log(jax.random.uniform(keys[3])) < log_ratio + prior[0] - prior[1]
        return jnp.where(accepted, proposed, u)

    u, plain, step = state.position, jax.jit(plain), eqx.filter_jit(chain.step)
    moves = 0
    for index in range(40):
        key = jax.random.fold_in(jax.random.key(3), index)
        state, draw = step(key, y, state, jnp.asarray(index))
        before, u = u, plain(key, u)
        moves += int(not np.array_equal(before, u))
        np.testing.assert_allclose(draw.theta, chain.chart.inverse(u), rtol=1e-4)
    assert 5 < moves < 40


@quiet
def test_iid_replicates_share_one_parameter() -> None:
    model, fit = sf.zoo.gaussian(), exact_fit("gaussian")
    assert model.log_likelihood is not None
    rows = jnp.asarray(observations("gaussian")[0] + 0.1 * observations("gaussian")[1:5])
    box = np.array([[-10.0, 1.0], [10.0, 10.0]])

    def log_density(theta: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(lambda row: model.log_likelihood(row, theta))(rows))  # type: ignore[misc]

    exact = GridPosterior.tabulate(log_density, model.names, box, box)
    method = sf.Exchange(fit, inner_steps=30, kernel="hmc")
    posterior = sf.sample(jax.random.key(0), method, np.asarray(rows), iid=True, num_draws=300, progress=False)
    assert np.abs(errors([posterior], [exact])).max() < 4


@pytest.mark.parametrize("kernel", list(KERNELS.values()), ids=list(KERNELS))
def test_kernels_leave_their_target_alone(kernel: Kernel) -> None:
    scale = jnp.array([[1.0, 0.3], [0.2, 0.5]])

    def moved(key: jax.Array) -> jax.Array:
        start = scale * jax.random.t(jax.random.fold_in(key, 1), 5.0, (2, 2))
        return run_kernel(
            kernel, key, lambda y: jnp.sum(-3.0 * jnp.log1p((y / scale) ** 2 / 5.0)), start, jnp.float32(0.7), 30
        )[0]

    ends = np.asarray(jax.jit(jax.vmap(moved))(jax.random.split(jax.random.key(0), 20_000))) / np.asarray(scale)
    for power, expected, variance in ((1, 0.0, 5 / 3), (2, 5 / 3, 25.0 - 25 / 9)):
        found = (ends**power).mean(0)
        assert np.all(np.abs(found - expected) < 4 * np.sqrt(variance / len(ends)))


@quiet
def test_the_same_key_gives_the_same_draws_and_a_new_observation_compiles_nothing() -> None:
    class Counting(RandomWalk):
        traced = 0

        def init(self, position: Any, log_density: Any) -> Any:
            Counting.traced += 1
            return super().init(position, log_density)

    method = sf.Exchange(exact_fit("gamma"), inner_steps=5, kernel=Counting(), warmup=200)

    def draws(row: int) -> np.ndarray:
        data = observations("gamma")[row]
        return sf.sample(jax.random.key(2), method, data, num_draws=20, progress=False).draws

    first, traced = draws(0), Counting.traced
    other = draws(1)
    np.testing.assert_array_equal(draws(0), first)
    assert not np.array_equal(other, first)
    assert traced > 0
    assert Counting.traced == traced


@quiet
def test_a_killed_run_goes_on_with_the_same_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method = sf.Exchange(exact_fit("gamma"), inner_steps=5, warmup=150, thin=2)
    path = tmp_path / "run"
    whole = sampled("gamma", method, 2, num_draws=150)
    monkeypatch.setattr(chains, "CHECKPOINT_SECONDS", 0.0)
    advance, calls = chains._advance_all, []

    def killed(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return advance(*arguments)

    monkeypatch.setattr(chains, "_advance_all", killed)
    with pytest.raises(KeyboardInterrupt):
        sampled("gamma", method, 2, num_draws=150, checkpoint=path)
    monkeypatch.setattr(chains, "_advance_all", advance)
    resumed = sampled("gamma", method, 2, num_draws=150, checkpoint=path)
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one.draws, other.draws)
        np.testing.assert_array_equal(one.info["acceptance"], other.info["acceptance"])
    with pytest.raises(sf.StorageError, match="no checkpoint of this call"):
        sampled("gamma", replace(method, inner_steps=6), 2, num_draws=150, checkpoint=path)


@quiet
def test_sizes_are_tuned_in_warm_up_only() -> None:
    method = sf.Exchange(exact_fit("gamma"), inner_steps=20, bridges=2, inner_size=3.0, bridge_size=1e-3)
    posterior = sampled("gamma", method, 1)[0]
    assert 0.15 < posterior.info["inner_acceptance"].mean() < 0.6
    assert 0.15 < posterior.info["bridge_acceptance"].mean() < 0.6
    assert 0.15 < posterior.info["acceptance"].mean() < 0.6
    assert np.all(posterior.info["inner_size"] < 3.0)
    chain = replace(method, warmup=0).settled(10).chain()
    y = jnp.zeros(10)
    state = chain.init(jax.random.key(0), y)
    after, _ = eqx.filter_jit(chain.step)(jax.random.key(1), y, state, jnp.asarray(0))
    assert float(after.inner.size) == 3.0
    np.testing.assert_array_equal(after.shape.number, state.shape.number)


@quiet
def test_doubling_inner_steps_shows_whether_they_are_enough() -> None:
    method = sf.Exchange(exact_fit("gamma"), inner_steps=10)
    drift = sf.diagnose_inner(jax.random.key(0), method, observations("gamma")[0], num_draws=1000, progress=False)
    assert not drift.enough
    assert "10 inner steps are too few: use kernel='random-walk', inner_steps=20 or more" in str(drift)
    walked = replace(drift.posterior, info=drift.posterior.info | {"kernel": repr(RandomWalk())})
    assert "use kernel=RandomWalk(acceptance=(0.2, 0.5)), inner_steps=20" in str(replace(drift, posterior=walked))
    steady = replace(drift, mean_shift=np.array([0.05, 0.2]), mean_error=np.array([0.02, 0.1]), sd_ratio=np.ones(2))
    assert steady.enough


def test_doubtful_results_are_said_to_be_so() -> None:
    fit, data = exact_fit("gamma"), observations("gamma")[0]
    method = sf.Exchange(fit, inner_steps=2, warmup=0)
    with pytest.warns(sf.SamplingWarning, match="too few effective draws"):
        posterior = sf.sample(jax.random.key(0), method, data, num_draws=20, progress=False)
    assert any("too few effective draws" in doubt for doubt in posterior.info["doubts"])
    with pytest.warns(sf.SamplingWarning, match="The observation is unlike the training data: only 0.00%"):
        sf.sample(jax.random.key(0), method, 1e4 * data, num_draws=20, progress=False)
    posterior = replace(posterior, info={})
    doubtful = replace(posterior, draws=np.cumsum(np.ones((4, 50, 2)), axis=1))
    fine = replace(posterior, draws=np.random.default_rng(0).normal(size=(4, 1000, 2)), info={})
    with pytest.warns(sf.SamplingWarning, match=r"worst of 2 among 3 observations"):
        note_doubts([doubtful, fine, doubtful])
    assert fine.info["doubts"] == []


def test_a_good_result_warns_of_nothing() -> None:
    method = sf.Exchange(exact_fit("gamma"), inner_steps=10, kernel="hmc")
    posterior = sf.sample(jax.random.key(0), method, observations("gamma")[1], num_draws=1500, progress=False)
    assert posterior.info["doubts"] == []
    assert list(posterior.summary().index) == ["k", "theta"]


def test_kernel_and_steps_follow_the_size_of_the_observation() -> None:
    fit = exact_fit("gamma")
    for numbers, settings, kernel, steps in (
        (10, {}, "random-walk", 100),
        (100, {}, "hmc", 10),
        (100, {"inner_steps": 30}, "random-walk", 30),
        (100, {"kernel": "random-walk"}, "random-walk", 100),
        (10, {"kernel": "hmc"}, "hmc", 10),
        (10, {"kernel": RandomWalk((0.1, 0.3))}, RandomWalk((0.1, 0.3)), 100),
    ):
        method = sf.Exchange(fit, **settings).settled(numbers)
        assert (method.kernel, method.inner_steps) == (kernel, steps)
    assert sf.Exchange.paper("ar2", fit).settled(100).kernel == "random-walk"
    assert replace(sf.Exchange(fit), kernel="random-walk").settled(100).inner_steps == 100


@quiet
def test_iid_replicates_are_as_large_as_all_of_them() -> None:
    """A random walk of 100 steps on 20 replicates of ten numbers would be twice too wide."""
    fit, rows = exact_fit("gamma"), observations("gamma")
    found = sf.sample(jax.random.key(0), sf.Exchange(fit, warmup=100), rows[:4], iid=True, num_draws=20, progress=False)
    assert (found.info["kernel"], found.info["inner_steps"], found.info["outer"]) == ("hmc", 10, "adaptive")


@pytest.mark.usefixtures("unchecked_types")
def test_bad_input_is_refused_before_any_work() -> None:
    fit, data = exact_fit("gamma"), observations("gamma")[0]
    method = sf.Exchange(fit)
    for bad, message in (
        (data[:4], r"shape \(4,\), but this model's x has shape \(10,\)"),
        (np.where(np.arange(10) == 3, -1.0, data), "coordinate 3 of the observation is -1.0"),
        (np.where(np.arange(10) == 3, np.nan, data), "coordinate 3 of the observation is nan"),
    ):
        with pytest.raises(ValueError, match=message):
            sf.sample(jax.random.key(0), method, bad)
    for settings, message in (
        ({"inner_steps": 0}, "inner_steps is 0"),
        ({"bridges": -1}, "bridges is -1"),
        ({"kernel": "gibbs"}, "kernel is 'gibbs'"),
        ({"inner_size": 0.0}, "inner_size is 0.0"),
        ({"outer": "leap"}, "outer is 'leap'"),
        ({"outer": "guided"}, "no normaliser that could guide"),
        ({"prior": dist.Uniform(jnp.zeros(2), jnp.ones(2)).to_event(1)}, "Give a prior of the same support"),
        ({"prior": dist.Uniform(jnp.zeros(3), jnp.ones(3)).to_event(1)}, "Give a prior of the same support"),
    ):
        with pytest.raises(ValueError, match=message):
            sf.Exchange(fit, **settings)
    broken = eqx.tree_at(lambda family: family.base.reference, fit.family, jnp.full(2, jnp.nan))
    with pytest.raises(ValueError, match="weights that are not finite"):
        sf.Exchange(replace(fit, module=broken))
    with pytest.raises(ValueError, match="The fit has no prior"):
        sf.Exchange(replace(fit, prior=None))
    with pytest.raises(ValueError, match="num_draws is 0"):
        sf.sample(jax.random.key(0), method, data, num_draws=0)
    with pytest.raises(TypeError, match="key is 3"):
        sf.sample(3, method, data)  # type: ignore[arg-type]


def test_the_papers_settings() -> None:
    method = sf.Exchange.paper("lorenz96-small", exact_fit("gamma"))
    assert (method.inner_steps, method.bridges, method.warmup, method.kernel) == (500, 200, 10_000, "random-walk")
    assert sf.Exchange.paper("ma2", exact_fit("gamma")).inner_steps == 100
    with pytest.raises(ValueError, match="no settings for 'sir'"):
        sf.Exchange.paper("sir", exact_fit("gamma"))
