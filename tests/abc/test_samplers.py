"""Every sampler against the ABC posterior by quadrature: a prior that is not uniform, mass at its edge."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import suffice as sf
from suffice.abc import Annealing, Euclidean, MarkovAbc, PopulationAbc, Rejection, SequentialAbc
from suffice.abc.space import Space
from suffice.sampling import Method
from tests.abc.cases import SIZE, TRACES, abc_posterior, conjugate, data_with_mean, edged, errors, mean_of

EDGE = -0.3  # the observed mean: outside the prior, so that the posterior leans on its edge
PLAIN = Euclidean(scaled=False)
SIZE_OF_ALL = 4000  # particles: one compiled shape of simulations


def methods(model: sf.Model, tolerance: float) -> list[Any]:
    common: dict[str, Any] = {"distance": PLAIN, "tolerance": tolerance, "scale_simulations": SIZE_OF_ALL}
    return [
        Rejection(model, mean_of, budget=44_000, **common),
        MarkovAbc(model, mean_of, pilot=SIZE_OF_ALL, thin=50, **common),
        PopulationAbc(model, mean_of, SIZE_OF_ALL, **common),
        SequentialAbc(model, mean_of, SIZE_OF_ALL, **common),
        SequentialAbc(model, mean_of, SIZE_OF_ALL, replicates=3, **common),
    ]


def independent(posterior: sf.Posterior) -> float:
    """How many independent draws these are worth, at least."""
    if posterior.info["method"] == "MarkovAbc":
        return float(posterior.convergence.ess_bulk[0])
    return 0.5 * min(posterior.info["distinct"], posterior.info.get("ess", np.inf))


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize(("model", "observed", "tolerance"), [(edged(), EDGE, 0.5), (edged(), EDGE, 0.1)])
def test_the_abc_posterior_at_a_tolerance(
    key: jax.Array, index: int, model: sf.Model, observed: float, tolerance: float
) -> None:
    method = methods(model, tolerance)[index]
    posterior = sf.sample(key, method, data_with_mean(observed))
    assert posterior.info["tolerance"] == pytest.approx(tolerance)
    assert np.all(posterior.draws > 0)
    assert max(errors(posterior, abc_posterior(model, observed, tolerance), independent(posterior))) < 4


def test_the_tolerance_matters_to_these_tests() -> None:
    wide, narrow, exact = (abc_posterior(edged(), EDGE, tolerance) for tolerance in (0.5, 0.1, 0.0))
    assert wide[0] > 1.1 * narrow[0]
    assert narrow[0] < 1.02 * exact[0]


def test_annealing_ends_at_the_posterior(key: jax.Array) -> None:
    """Its draws lag behind its tolerance by a few hundredths of a standard deviation, redrawn proposals by 0.2."""
    method = Annealing(edged(), mean_of, particles=SIZE_OF_ALL, iterations=100, scale_simulations=SIZE_OF_ALL)
    posterior = sf.sample(key, method, data_with_mean(EDGE))
    mean, sd = abc_posterior(edged(), EDGE, 0.0)
    assert posterior.info["tolerance"] < 0.01
    assert posterior.info["distinct"] > 2000
    assert abs(posterior.mean[0] - mean) < 0.12 * sd
    assert abs(posterior.sd[0] - sd) < 0.12 * sd


def test_the_conjugate_posterior_at_default_settings(key: jax.Array) -> None:
    posterior = sf.sample(key, Annealing(conjugate(), mean_of), data_with_mean(1.0))
    mean, sd = abc_posterior(conjugate(), 1.0, 0.0)
    assert abs(posterior.mean[0] - mean) < 0.2 * sd
    assert abs(posterior.sd[0] - sd) < 0.2 * sd


def test_the_conjugate_posterior_is_what_quadrature_says() -> None:
    precision = 1 / 4 + SIZE
    assert abc_posterior(conjugate(), 1.0, 0.0) == pytest.approx((SIZE / precision, precision**-0.5), rel=1e-4)


def test_the_prior_on_a_simplex_is_read_in_its_chart() -> None:
    prior = dist.Dirichlet(jnp.array([2.0, 3.0, 4.0]))
    space = Space.of(prior)
    position = jnp.array([[0.3, -0.2], [-1.0, 0.5]])

    @jax.jit
    def compared(position: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        theta = space.theta(position)
        jacobians = jax.vmap(jax.jacfwd(lambda row: space.theta(row[None])[0, :2]))(position)
        expected = prior.log_prob(theta) + jnp.log(jnp.abs(jnp.linalg.det(jacobians)))
        return space.log_prior(position), expected, space.position(theta)

    found, expected, again = compared(position)
    assert np.allclose(found, expected, atol=1e-4)
    assert np.allclose(again, position, atol=1e-4)


def test_outside_the_prior_there_is_no_density() -> None:
    space = Space.of(dist.Uniform(jnp.zeros(2), jnp.array([1.0, 3.0])).to_event(1))
    rows = jnp.array([[0.5, 2.0], [1.5, 2.0], [0.5, -0.1]])
    assert np.allclose(space.log_prior(rows), [-np.log(3.0), -np.inf, -np.inf], atol=1e-6)


@pytest.mark.filterwarnings("ignore::suffice.SamplingWarning")
@pytest.mark.parametrize("index", [0, 1, 2, 3, 5])
def test_many_observations_are_each_as_alone_and_repeat_by_key(key: jax.Array, index: int) -> None:
    annealing = Annealing(edged(), mean_of, particles=SIZE_OF_ALL, iterations=4, scale_simulations=SIZE_OF_ALL)
    method = [*methods(edged(), 0.5), annealing][index]
    assert isinstance(method, Method)
    rows = np.stack([data_with_mean(mean) for mean in (EDGE, 0.5, 1.5)])
    each = sf.sample_each(key, method, rows, num_draws=100)
    again = sf.sample_each(key, method, rows, num_draws=100)
    other = sf.sample_each(jax.random.key(1), method, rows, num_draws=100)
    means = [posterior.mean[0] for posterior in each]
    assert means[0] < means[1] < means[2]
    for one, two, three in zip(each, again, other, strict=True):
        assert np.array_equal(one.draws, two.draws)
        assert one.draws.shape != three.draws.shape or not np.array_equal(one.draws, three.draws)
    alone = sf.sample(key, method, rows[0], num_draws=100)
    if not isinstance(method, MarkovAbc):  # whose chains share their numbers
        assert np.array_equal(alone.draws, each[0].draws)


@pytest.mark.filterwarnings("ignore::suffice.SamplingWarning")
def test_a_new_observation_compiles_nothing(key: jax.Array) -> None:
    for method in methods(edged(), 0.5):
        sf.sample(key, method, data_with_mean(0.0), num_draws=100)
    before = len(TRACES)
    for method in methods(edged(), 0.4):
        sf.sample(key, method, data_with_mean(0.1), num_draws=100)
    assert len(TRACES) == before
