"""Is some data like the training data? Priors in files."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.exact_families import exact_fit

import suffice as sf
from suffice.family.encoding import decode_prior, encode_prior
from suffice.family.envelope import Envelope


def test_tails_are_ranks_among_the_training_data() -> None:
    fit = exact_fit("gamma")
    tails = fit.outside_training(sf.simulate(jax.random.key(8), sf.zoo.gamma(), 2000, progress=False).x)
    for level in (0.1, 0.5, 0.9):
        assert abs(np.mean(tails < level) - level) < 0.04
    assert fit.outside_training(np.full(10, 1e5)) == 0.0
    assert 0.3 < fit.outside_training(np.full(10, 4.0) + np.linspace(-3.5, 8, 10)) <= 1.0


def test_what_is_not_finite_lies_outside() -> None:
    envelope = Envelope(jnp.zeros(2), jnp.eye(2), jnp.array([0.5, 1.0, 2.0]))
    assert float(envelope.tail(jnp.array([jnp.nan, 0.0]))) == 0.0
    assert float(envelope.tail(jnp.zeros(2))) == 1.0


PRIORS = {
    "uniform": dist.Uniform(jnp.zeros(2), jnp.ones(2)).to_event(1),
    "normal": dist.Normal(jnp.zeros(2), 2.0).to_event(1),
    "multivariate normal": dist.MultivariateNormal(jnp.zeros(2), jnp.array([[1.0, 0.5], [0.5, 2.0]])),
    "log-normal": dist.LogNormal(jnp.zeros(3), 0.5).to_event(1),
    "gamma": dist.Gamma(jnp.ones(2), 2.0).to_event(1),
    "truncated": dist.TruncatedNormal(jnp.zeros(2), 1.0, low=0.0, high=3.0).to_event(1),
    "left-truncated": dist.TruncatedNormal(jnp.zeros(2), 1.0, low=0.5).to_event(1),
    "dirichlet": dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])),
}


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_priors_come_back_from_a_file(prior: dist.Distribution) -> None:
    arrays: dict[str, np.ndarray] = {}
    code = encode_prior(prior, arrays)
    again = decode_prior(code, arrays)
    assert again is not None
    draws = prior.sample(jax.random.key(0), (20,))
    np.testing.assert_allclose(again.log_prob(draws), prior.log_prob(draws), rtol=1e-6)


def test_a_prior_of_another_kind_is_left_out() -> None:
    transformed = dist.TransformedDistribution(
        dist.Normal(jnp.zeros(2), 1.0).to_event(1), dist.transforms.ExpTransform()
    )
    assert encode_prior(transformed, {}) is None
    assert decode_prior(None, {}) is None
