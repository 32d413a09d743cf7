"""Refinement by contrast, on a model whose likelihood ratio is known: x ~ N(θ, 1), so η = θ and A = θ²/2."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions import transforms
from scipy import stats
from scipy.special import logsumexp

import suffice as sf
from suffice.family import ExponentialFamily
from suffice.family.normaliser import Normaliser, fit_normaliser
from suffice.fitting import refining
from suffice.fitting.refining import FEWEST, Contrasts, _Rows, _weighed, log_posterior_ratio, refine, tempered

pytestmark = pytest.mark.usefixtures("optimised")

PRIOR = dist.Uniform(jnp.array([-3.0]), jnp.array([3.0])).to_event(1)
MODEL = sf.Model(PRIOR, lambda key, theta: theta + jax.random.normal(key, (1,)), names=("mean",))


class Bent(eqx.Module):
    """η(θ) = (θ + bend θ²) / unit."""

    bend: jax.Array
    unit: float = 1.0

    def __call__(self, theta: jax.Array) -> jax.Array:
        return (theta + self.bend * theta**2) / self.unit


class Rows:
    """Training and held-out pairs, a family whose η is bent, and its normaliser."""

    def __init__(self, bend: float, unit: float = 1.0, num: int = 4000) -> None:
        sims = sf.simulate(jax.random.key(0), MODEL, num + 1000)
        self.family = ExponentialFamily.assemble(
            MODEL, lambda y: y * unit, Bent(jnp.float32(bend), unit), base=lambda y: jnp.zeros(1)
        )
        self.pairs = (sims.theta[:num], sims.x[:num], sims.theta[num:], sims.x[num:])
        self.chart = MODEL.parameter_chart(sims.theta)
        self.normaliser = fit_normaliser(self.family, self.chart, *self.pairs)

    def refined(self, steps: int = 240) -> Normaliser:
        return refine(
            jax.random.key(1), self.family, self.normaliser, *self.pairs, prior=PRIOR, chart=self.chart, steps=steps
        )


def worst_error(normaliser: Normaliser, unit: float = 1.0) -> float:
    """The largest error of log p(x|θ') − log p(x|θ) over x and over θ, θ' within one standard deviation of x."""
    errors = []
    for x in np.linspace(-2.0, 2.0, 9):
        theta = jnp.linspace(x - 1.0, x + 1.0, 11)[:, None]
        found = jax.vmap(lambda t, x=x: normaliser.log_density(jnp.array([x * unit]), t))(theta)
        difference = np.asarray(found) - np.asarray(theta[:, 0] * x - theta[:, 0] ** 2 / 2)
        errors.append(np.ptp(difference))
    return float(np.max(errors))


def test_the_ratio_is_that_of_a_slow_loop() -> None:
    normaliser = Rows(0.05).normaliser
    theta, statistics = np.array([[-1.0], [0.5], [2.0], [-2.5]], np.float32), np.array([[0.3], [-0.7]], np.float32)
    expected, weights = [], np.array([1.0, 0.5, 1.2, 0.1], np.float32)
    for j, row in enumerate(statistics):
        values = [float(normaliser.log_density(jnp.asarray(row), jnp.asarray(t))) for t in theta]
        expected.append(values[j] - (logsumexp(values, b=weights) - np.log(len(values))))
    found = log_posterior_ratio(normaliser, jnp.asarray(statistics), Contrasts(jnp.asarray(theta), jnp.log(weights)))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.fixture(scope="module")
def bent(optimised: None) -> Rows:
    return Rows(0.1)


@pytest.fixture(scope="module")
def refined(bent: Rows) -> Iterator[Normaliser]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refining, "BATCH", 400)
        yield bent.refined()


def test_a_bent_eta_is_straightened(bent: Rows, refined: Normaliser) -> None:
    assert worst_error(bent.normaliser) > 0.2
    assert worst_error(refined) < 0.5 * worst_error(bent.normaliser)
    network, first = refined.natural.network, bent.family.natural.network
    assert isinstance(network, Bent)
    assert isinstance(first, Bent)
    assert abs(float(network.bend)) < 0.04
    assert float(first.bend) == pytest.approx(0.1)


def test_units_of_the_statistics_do_not_matter(refined: Normaliser) -> None:
    other = Rows(0.1, unit=1000.0)
    assert worst_error(other.refined(), 1000.0) == pytest.approx(worst_error(refined), abs=0.02)


def test_a_right_family_stays_right() -> None:
    right = Rows(0.0)
    assert worst_error(right.refined()) < worst_error(right.normaliser) + 0.05


def test_a_family_too_sure_by_an_order_of_magnitude_is_cooled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refining, "BATCH", 400)
    rows = Rows(0.0)
    right, rows.normaliser = worst_error(rows.normaliser), tempered(rows.normaliser, 40.0)
    assert worst_error(rows.normaliser) > 20.0
    assert worst_error(rows.refined()) < right + 0.2


def test_no_steps_or_too_few_pairs_change_nothing(bent: Rows) -> None:
    few = Rows(0.1, num=FEWEST - 1)
    assert bent.refined(steps=0) is bent.normaliser
    assert few.refined() is few.normaliser


def test_contrasts_of_both_kinds_have_the_mean_of_the_prior() -> None:
    """E over a prior that is normal in one parameter and bounded in the other, by stretched draws and plain ones."""
    cat = transforms.CatTransform([transforms.IdentityTransform(), transforms.SigmoidTransform()], dim=-1)
    prior = dist.TransformedDistribution(dist.Normal(jnp.array([1.0, 0.0]), jnp.array([2.0, 1.0])).to_event(1), cat)
    model = sf.Model(prior, lambda key, theta: theta + jax.random.normal(key, (2,)))
    theta = model.prior.sample(jax.random.key(4), (20_000,))
    own, wide = _weighed(prior, model.parameter_chart(theta), theta)
    assert wide is not None
    np.testing.assert_allclose(wide.theta[:, 1], theta[:, 1], rtol=1e-4)
    assert np.std(wide.theta[:, 0]) == pytest.approx(4.0, rel=0.05)
    rows = _Rows(jnp.zeros((20_000, 1)), own, wide).contrasts(20_000)
    assert len(rows.theta) == 30_000
    weights = np.exp(np.asarray(rows.log_weight, np.float64))
    assert weights.mean() == pytest.approx(1.0, abs=0.02)
    first = np.asarray(rows.theta[:, 0], np.float64)
    assert np.mean(weights * first) == pytest.approx(1.0, abs=0.06)
    assert np.mean(weights * (first - 1.0) ** 2) == pytest.approx(4.0, rel=0.03)
    beyond = np.mean(weights * (first > 7.0)), stats.norm.sf(3.0)
    assert beyond[0] == pytest.approx(beyond[1], rel=0.15)


def test_tails_of_an_unbounded_prior_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spurious mode five standard deviations out, where no draw of the prior lies, is taken down."""
    monkeypatch.setattr(refining, "BATCH", 300)
    prior = dist.Normal(jnp.zeros(1), jnp.ones(1)).to_event(1)
    model = sf.Model(prior, lambda key, theta: theta + jax.random.normal(key, (1,)))
    sims = sf.simulate(jax.random.key(0), model, 5000, progress=False)
    family = ExponentialFamily.assemble(model, lambda y: y, Bent(jnp.float32(0.0)), base=lambda y: jnp.zeros(1))
    pairs = (sims.theta[:4000], sims.x[:4000], sims.theta[4000:], sims.x[4000:])
    chart = model.parameter_chart(sims.theta)
    right = fit_normaliser(family, chart, *pairs)
    assert right.degrees[0] >= 2
    steep = jnp.zeros_like(right.polynomial).at[-1].set(1.0)
    far = jnp.array([5.0])
    wrong = eqx.tree_at(lambda part: part.polynomial, right, right.polynomial - 0.5 * right(far) * steep)
    refined = refine(jax.random.key(1), family, wrong, *pairs, prior=prior, chart=chart, steps=1200)

    def spurious(normaliser: Normaliser) -> float:
        """How much more probable 5 is than 0 given x = 0, in logarithms: −25 by a right normaliser."""
        ratio = normaliser.log_density(jnp.zeros(1), far) - normaliser.log_density(jnp.zeros(1), jnp.zeros(1))
        return float(ratio + prior.log_prob(far) - prior.log_prob(jnp.zeros(1)))

    assert spurious(right) < -20.0
    assert spurious(wrong) > 20.0
    assert spurious(refined) < -5.0
