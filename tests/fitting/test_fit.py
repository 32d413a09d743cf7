"""`fit` and `Fit`: what comes out, how it is used, saved, resumed and stopped."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import suffice as sf
from suffice.family import ExponentialFamily
from suffice.family.normaliser import Normaliser
from suffice.family.statistics import Mlp
from suffice.fitting import loop
from suffice.fitting.history import History

SETTINGS = sf.Training(epochs=6, batch_size=250, check_every=2)


def leaves(fit: sf.Fit) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(fit.module, eqx.is_array))]


def same(one: sf.Fit, other: sf.Fit) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


class Own(eqx.Module):
    """A user's network: nothing that the library knows."""

    inner: eqx.nn.MLP

    def __call__(self, y: jax.Array) -> jax.Array:
        return self.inner(y)


def own_family(model: sf.Model) -> ExponentialFamily:
    network = Own(eqx.nn.MLP(10, 4, 12, 1, activation=jax.nn.softplus, key=jax.random.key(9)))
    return ExponentialFamily.assemble(model, network, Mlp(jax.random.key(8), (2,), 3, (8,)))


def test_training_lowers_the_loss_and_keeps_the_best(gamma_fit: sf.Fit) -> None:
    history = gamma_fit.history
    assert history.epochs == 6
    assert history.validation_epochs.tolist() == [2, 4, 6]
    assert history.train_loss[-1] < history.train_loss[0]
    assert history.best_loss == history.validation_loss.min()


def test_natural_parameters_are_standardised_over_training(gamma_fit: sf.Fit, gamma_sims: sf.Simulations) -> None:
    eta = np.asarray(jax.vmap(gamma_fit.family.natural)(jnp.asarray(gamma_sims.theta[:1800])))
    np.testing.assert_allclose(eta.mean(0), 0.0, atol=1e-4)
    np.testing.assert_allclose(eta.std(0), 1.0, atol=1e-4)


def test_the_same_key_gives_the_same_fit(gamma_fit: sf.Fit, gamma_sims: sf.Simulations) -> None:
    assert same(gamma_fit, sf.fit(jax.random.key(1), sf.zoo.gamma(), gamma_sims, training=SETTINGS))
    assert not same(gamma_fit, sf.fit(jax.random.key(2), sf.zoo.gamma(), gamma_sims, training=SETTINGS))


def test_a_second_fit_does_not_compile_again(gamma_fit: sf.Fit, gamma_sims: sf.Simulations) -> None:
    run: Any = loop._run_epochs
    before = run._cached._cache_size()
    sf.fit(jax.random.key(7), sf.zoo.gamma(), gamma_sims, training=SETTINGS)
    assert run._cached._cache_size() == before


def test_statistics_and_densities(gamma_fit: sf.Fit, gamma_sims: sf.Simulations) -> None:
    x, theta = gamma_sims.x[:7], gamma_sims.theta[:7]
    many = gamma_fit.statistics(x)
    assert isinstance(many, np.ndarray)
    assert many.shape == (7, 5)
    np.testing.assert_allclose(gamma_fit.statistics(x[3]), many[3], rtol=1e-5)
    traced = jax.jit(jax.vmap(gamma_fit.statistics))(jnp.asarray(x))
    np.testing.assert_allclose(np.asarray(traced), many, rtol=1e-4, atol=1e-4)

    family = gamma_fit.family
    rows = gamma_fit.log_density(x, theta)
    assert rows.shape == (7,)
    for i in range(7):
        y = family.data_chart.forward(x[i])
        by_hand = (
            family.natural(jnp.asarray(theta[i])) @ family.statistics_of(y)
            + family.base_of(y)
            - family.data_chart.log_det(y)
        )
        assert rows[i] == pytest.approx(float(by_hand), rel=1e-4, abs=1e-4)
    assert gamma_fit.log_density(x[0], theta[0]).shape == ()
    assert gamma_fit.log_density(x[0], theta).shape == (7,)
    assert gamma_fit.log_density(x, theta[0]).shape == (7,)


def test_wrong_inputs_of_a_fit_are_sentences(gamma_fit: sf.Fit, gamma_sims: sf.Simulations) -> None:
    with pytest.raises(ValueError, match=r"x has shape \(9,\), but must be one x of shape \(10,\)"):
        gamma_fit.statistics(np.ones(9))
    with pytest.raises(sf.SupportError, match="coordinate 0 of x is -1"):
        gamma_fit.statistics(-np.ones(10))
    with pytest.raises(ValueError, match="must be one vector of 2 parameters"):
        gamma_fit.log_density(np.ones(10), np.ones(3))
    with pytest.raises(ValueError, match="3 rows and theta 2"):
        gamma_fit.log_density(np.ones((3, 10)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="Simulate from this model"):
        sf.fit(jax.random.key(0), sf.zoo.beta(), gamma_sims)
    with pytest.raises(ValueError, match="too few"):
        sf.fit(jax.random.key(0), sf.zoo.gamma(), gamma_sims[:10])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"objective": "SM"}, r"objective is 'SM', but must be an objective, such as ScoreMatching\(\)"),
        ({"objective": sf.ScoreMatching}, "objective is the class ScoreMatching, but must be an objective"),
        ({"training": {}}, r"training is of type dict, but must be settings: suffice\.Training"),
        ({"family": "gaussian"}, "family is 'gaussian', but must be an ExponentialFamily"),
        ({"sims": (np.zeros((30, 2)), np.zeros((30, 10)))}, r"sims is of type tuple.*from_arrays\(theta, x\)"),
        ({"model": lambda key, theta: theta}, r"model is of type function, but must be a Model"),
    ],
)
def test_other_kinds_of_inputs_are_sentences(
    given: dict[str, Any], words: str, gamma_sims: sf.Simulations, unchecked_types: None
) -> None:
    arguments: dict[str, Any] = {"model": sf.zoo.gamma(), "sims": gamma_sims} | given
    with pytest.raises(TypeError, match=words):
        sf.fit(jax.random.key(0), **arguments)


@pytest.mark.parametrize("name", ["gamma", "beta", "ar2", "lorenz96"])
def test_save_and_load(name: str, tmp_path: Path) -> None:
    model = getattr(sf.zoo, name)()
    sims = sf.simulate(jax.random.key(0), model, 60)
    fit = sf.fit(jax.random.key(1), model, sims, training=sf.Training(epochs=1, batch_size=20))
    loaded = sf.load(fit.save(tmp_path / "fit.npz"))
    assert same(fit, loaded)
    assert str(jax.tree.structure(loaded.module)) == str(jax.tree.structure(fit.module))
    assert loaded.names == fit.names
    assert loaded.settings == fit.settings
    parts = [(part.normaliser, part.envelope, part.parameter_chart) for part in (fit, loaded)]
    assert all(np.array_equal(*pair) for pair in zip(*map(jax.tree.leaves, parts), strict=True))
    np.testing.assert_array_equal(loaded.history.train_loss, fit.history.train_loss)
    np.testing.assert_array_equal(loaded.statistics(sims.x), fit.statistics(sims.x))


def without(code: Any, name: str) -> Any:
    """A manifest as it was before modules had a field of that name."""
    if isinstance(code, dict):
        return {key: without(part, name) for key, part in code.items() if key != name}
    return [without(part, name) for part in code] if isinstance(code, list) else code


def test_files_of_the_layout_before(gamma_fit: sf.Fit, gamma_sims: sf.Simulations) -> None:
    manifest, arrays = gamma_fit.to_archive()
    manifest = without(manifest, "scaling")
    manifest["normaliser"]["fields"]["natural"] = None
    loaded = sf.Fit.from_archive(manifest, arrays)
    assert isinstance(gamma_fit.normaliser, Normaliser)
    assert isinstance(loaded.normaliser, Normaliser)
    theta = jnp.asarray(gamma_sims.theta[0])
    assert loaded.normaliser(theta) == gamma_fit.normaliser(theta)
    assert loaded.family.data_chart.scaling == "spread"
    np.testing.assert_array_equal(loaded.statistics(gamma_sims.x), gamma_fit.statistics(gamma_sims.x))


def test_a_network_of_ones_own(gamma_sims: sf.Simulations, tmp_path: Path) -> None:
    model = sf.zoo.gamma()
    fit = sf.fit(jax.random.key(1), model, gamma_sims, family=own_family(model), training=SETTINGS)
    path = fit.save(tmp_path / "fit.npz")
    with pytest.raises(sf.StorageError, match=r"network of your own, Own.*Fit\.load\(path, template=family\)"):
        sf.load(path)
    loaded = sf.Fit.load(path, template=own_family(model))
    np.testing.assert_array_equal(loaded.statistics(gamma_sims.x), fit.statistics(gamma_sims.x))
    with pytest.raises(sf.StorageError, match="has a DeepSet in that place"):
        sf.Fit.load(path, template=ExponentialFamily.default(jax.random.key(0), model))


class KilledError(Exception):
    """The end of a process, played."""


def test_a_killed_fit_goes_on_bit_for_bit(
    gamma_fit: sf.Fit, gamma_sims: sf.Simulations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint.npz"
    arguments: dict[str, Any] = {"training": SETTINGS, "checkpoint": path}
    run, calls = loop._run_epochs, []

    def fail_later(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KilledError
        return run(*given)

    monkeypatch.setattr(loop, "_run_epochs", fail_later)
    with pytest.raises(KilledError):
        sf.fit(jax.random.key(1), sf.zoo.gamma(), gamma_sims, **arguments)
    resumed = sf.fit(jax.random.key(1), sf.zoo.gamma(), gamma_sims, **arguments)
    assert len(calls) == 4  # two before the kill, the one that failed, and only the last after it
    assert same(resumed, gamma_fit)
    np.testing.assert_array_equal(resumed.history.train_loss, gamma_fit.history.train_loss)
    with pytest.raises(sf.StorageError, match="no checkpoint of this call"):
        sf.fit(jax.random.key(2), sf.zoo.gamma(), gamma_sims, **arguments)


def test_a_process_killed_in_the_middle_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL, whenever the second look has been written; the resumed fit is that of an uninterrupted process."""
    script = textwrap.dedent(
        """
        import sys, jax, suffice as sf
        model = sf.zoo.gaussian()
        sims = sf.simulate(jax.random.key(0), model, 400)
        training = sf.Training(epochs=int(sys.argv[2]), batch_size=100, check_every=1)
        fit = sf.fit(jax.random.key(1), model, sims, training=training, checkpoint=sys.argv[1])
        fit.save(sys.argv[1] + ".fit")
        """
    )
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, "script.py", "killed", "150"]
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    process = subprocess.Popen(command, cwd=tmp_path)
    deadline = time.monotonic() + 120
    while not (tmp_path / "killed").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(sf.load(tmp_path / "killed").others["train_loss"])
    assert 0 < done < 150
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([sys.executable, "script.py", "whole", "150"], cwd=tmp_path, check=True)
    assert same(sf.load(tmp_path / "killed.fit"), sf.load(tmp_path / "whole.fit"))


def test_nan_in_the_loss(gamma_sims: sf.Simulations, monkeypatch: pytest.MonkeyPatch) -> None:
    model = sf.zoo.gamma()
    run, calls = loop._run_epochs, []

    def poisoned(*given: Any) -> Any:
        calls.append(1)
        state, losses = run(*given)
        return state, losses.at[1].set(jnp.nan) if len(calls) == 2 else losses

    monkeypatch.setattr(loop, "_run_epochs", poisoned)
    with pytest.warns(sf.TrainingWarning, match=r"not finite in epoch 4, so training stopped.*epoch 2 are kept"):
        fit = sf.fit(jax.random.key(1), model, gamma_sims, training=SETTINGS)
    assert fit.history.best_epoch == 2
    assert all(np.isfinite(leaf).all() for leaf in leaves(fit))


def test_nan_from_the_start(gamma_sims: sf.Simulations) -> None:
    wild = sf.Training(epochs=4, batch_size=250, check_every=2, learning_rate=1e20, schedule="constant")
    with pytest.raises(sf.TrainingError, match=r"not finite in epoch .*Lower learning_rate"):
        sf.fit(jax.random.key(1), sf.zoo.gamma(), gamma_sims, training=wild)


def test_failed_simulations_are_left_out(gamma_sims: sf.Simulations, gamma_fit: sf.Fit) -> None:
    rows = np.arange(2000)
    extra = gamma_sims[rows[:5]]
    broken = sf.Simulations(
        np.concatenate([extra.theta, gamma_sims.theta]),
        np.concatenate([np.full_like(extra.x, np.nan), gamma_sims.x]),
        np.concatenate([np.full(5, sf.Status.NOT_FINITE, np.int8), gamma_sims.status]),
        gamma_sims.names,
        gamma_sims.provenance,
    )
    assert same(sf.fit(jax.random.key(1), sf.zoo.gamma(), broken, training=SETTINGS), gamma_fit)


def test_rates_of_their_own(gamma_sims: sf.Simulations) -> None:
    """A natural rate near 0 leaves η's network where it began; the statistics move."""
    model = sf.zoo.gamma()
    family = ExponentialFamily.default(jax.random.key(5), model)
    settings = sf.Training(epochs=1, natural_learning_rate=1e-12, batch_size=250)
    fit = sf.fit(jax.random.key(1), model, gamma_sims, family=family, training=settings)
    before, after = (jax.tree.leaves(f.natural.network) for f in (family, fit.family))
    assert all(np.allclose(a, b, atol=1e-9) for a, b in zip(before, after, strict=True))
    before, after = (jax.tree.leaves(f.statistics) for f in (family, fit.family))
    assert not all(np.allclose(a, b, atol=1e-5) for a, b in zip(before, after, strict=True))


def test_kept_weights_are_a_fading_average(gamma_sims: sf.Simulations) -> None:
    """One step an epoch, so that fits of 1, 2 and 3 epochs show the weights that a fit of 3 averages."""
    model = sf.zoo.gamma()
    family = ExponentialFamily.default(jax.random.key(5), model)

    def statistics(epochs: int, averaging: float | None) -> list[np.ndarray]:
        settings = sf.Training(
            epochs=epochs, batch_size=1800, schedule="constant", averaging=averaging, check_every=1, learning_rate=1e-3
        )
        fit = sf.fit(jax.random.key(1), model, gamma_sims, family=family, training=settings)
        assert fit.history.best_epoch == epochs
        return [np.asarray(leaf) for leaf in jax.tree.leaves(fit.family.statistics)]

    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(family.statistics)]
    for epochs in (1, 2, 3):
        fading = np.exp(-1 / (0.5 * 3))
        expected = [fading * a + (1 - fading) * b for a, b in zip(expected, statistics(epochs, None), strict=True)]
    for a, b in zip(expected, statistics(3, 0.5), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-6)


def stopping(losses: list[float], **settings: Any) -> History:
    training = sf.Training(check_every=1, epochs=len(losses), **settings)
    history = History.empty()
    for loss in losses:
        if history.stopped:
            break
        history = history.extended(np.array([0.0]), loss, training, 0.0)
    return history


def test_patience() -> None:
    history = stopping([5.0, 4.0, 4.5, 4.2, 4.1, 1.0], patience=3)
    assert (history.epochs, history.best_epoch) == (5, 2)
    assert history.stopped == "the validation loss no longer fell"


def test_the_papers_rule() -> None:
    """Stop at the first look after T_start whose loss has grown since the last; keep the weights before it."""
    history = stopping([1.0, 5.0, 4.0, 3.0, 3.5, 2.0], patience=1, first_check=2)
    assert (history.epochs, history.best_epoch) == (5, 4)


def test_the_papers_settings() -> None:
    settings = sf.Training.paper("gaussian", "SM")
    assert (settings.learning_rate, settings.natural_learning_rate) == (3e-4, 3e-3)
    assert (settings.epochs, settings.first_check, settings.check_every, settings.batch_size) == (500, 150, 10, 1000)
    assert sf.Training.paper("lorenz96-small", "SSM").epochs == 1000
    assert sf.Training.paper("gaussian", "FP").schedule == "constant"
    with pytest.raises(ValueError, match="The paper has no settings for 'lorenz96-small' by 'SM'"):
        sf.Training.paper("lorenz96-small", "SM")


@pytest.mark.parametrize(
    "settings",
    [{"epochs": 0}, {"batch_size": 2.5}, {"learning_rate": -1.0}, {"schedule": "up"}, {"validation_fraction": 1.0}],
)
def test_wrong_settings_are_sentences(settings: dict[str, Any], unchecked_types: None) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(settings))} is .*, but must be"):
        sf.Training(**settings)


def test_schedules() -> None:
    one_cycle = sf.Training(epochs=10, learning_rate=1.0).rate(10)
    values = np.array([float(one_cycle(step)) for step in range(101)])
    assert values.argmax() == 10
    assert values.max() == pytest.approx(1.0)
    assert values[-1] < 1e-3
    decaying = sf.Training(schedule="exponential", learning_rate=1.0, decay=0.5).rate(10)
    assert [float(decaying(step)) for step in (0, 9, 10, 25)] == [1.0, 1.0, 0.5, 0.25]
