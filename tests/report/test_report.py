"""The report says what to do first, holds everything in one file, and a real browser shows it."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import escape, unescape
from pathlib import Path

import jax
import numpy as np
import pytest
from tests.conjugate import Sampler, model
from tests.exact_families import exact_fit

import suffice as sf
from suffice.diagnostics import Calibration, PredictiveCheck, calibrate, predictive_check
from suffice.fitting import History
from suffice.report import Verdict, judge
from suffice.report.judging import training_doubt

OBSERVED = np.linspace(-1, 1, 10).astype(np.float32)
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def post() -> sf.Posterior:
    return sf.sample(jax.random.key(0), Sampler(), OBSERVED)


@pytest.fixture(scope="module")
def check(post: sf.Posterior) -> PredictiveCheck:
    return predictive_check(jax.random.key(1), model(), post, OBSERVED)


def calibration(width: float) -> Calibration:
    return calibrate(jax.random.key(2), model(), Sampler(width=width), num=60, progress=False)


@pytest.fixture(scope="module")
def calibrated() -> Calibration:
    return calibration(1.0)


def history(*losses: float, best: int | None = None) -> History:
    epochs = np.arange(1, len(losses) + 1)
    return History(np.array(losses), epochs, np.array(losses), best or len(losses), 1.0, "", None)


def fit_with(course: History) -> sf.Fit:
    fit = exact_fit("gamma")
    return sf.Fit(fit.module, fit.names, course, {"simulations": [{"num": 10, "key": {"data": [0, 1]}}]})


def test_a_wrong_truth_writes_nothing(post: sf.Posterior, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one number for each of the 2 parameters"):
        sf.report(post, path=tmp_path / "r.html", truth=[1.0])
    assert not (tmp_path / "r.html").exists()


def test_a_posterior_that_passed_everything_is_to_be_believed(
    post: sf.Posterior, check: PredictiveCheck, calibrated: Calibration
) -> None:
    found = judge(post, None, check, calibrated)
    assert found.verdict is Verdict.BELIEVE
    assert not found.against
    assert len(found.favour) == 3


def test_what_was_not_looked_at_calls_for_a_check(post: sf.Posterior, check: PredictiveCheck) -> None:
    found = judge(post, None, check, None)
    assert found.verdict is Verdict.CHECK
    assert "calibrate" in found.unknown[0]


def test_bad_calibration_forbids_belief(post: sf.Posterior, check: PredictiveCheck) -> None:
    found = judge(post, None, check, calibration(0.4))
    assert found.verdict is Verdict.DO_NOT
    assert "too narrow" in found.against[0]


def test_the_calibration_of_another_method_is_no_evidence(
    post: sf.Posterior, check: PredictiveCheck, calibrated: Calibration
) -> None:
    assert "Calibration of Sampler: No fault" in judge(post, None, check, calibrated).favour[-1]
    found = judge(post, None, check, replace(calibrated, method="Direct"))
    assert found.verdict is Verdict.CHECK
    assert found.unknown == ("whether Sampler is calibrated: the calibration that was given is of Direct",)


def test_an_observation_outside_the_model_forbids_belief(post: sf.Posterior, calibrated: Calibration) -> None:
    far = OBSERVED + np.where(np.arange(10) == 0, 25.0, 0.0).astype(np.float32)
    found = judge(post, None, predictive_check(jax.random.key(1), model(), post, far), calibrated)
    assert found.verdict is Verdict.DO_NOT
    assert "maximum (24" in found.against[0]


def test_doubts_of_the_sampler_forbid_belief(check: PredictiveCheck, calibrated: Calibration) -> None:
    with pytest.warns(sf.SamplingWarning):
        few = sf.sample(jax.random.key(0), Sampler(), OBSERVED, num_draws=40)
    found = judge(few, None, check, calibrated)
    assert found.verdict is Verdict.DO_NOT
    assert any("too few effective draws" in words for words in found.against)


def test_training_cut_short_calls_for_a_check(
    post: sf.Posterior, check: PredictiveCheck, calibrated: Calibration
) -> None:
    found = judge(post, fit_with(history(5.0, 4.0, 3.0, 2.0, 1.0)), check, calibrated)
    assert found.verdict is Verdict.CHECK
    assert "still falling" in found.against[0]
    assert judge(post, fit_with(history(5.0, 1.1, 1.05, 1.01, 1.0)), check, calibrated).verdict is Verdict.BELIEVE


def test_the_course_of_training_is_judged() -> None:
    assert "still falling" in training_doubt(fit_with(history(5.0, 4.0, 3.0, 2.0, 1.0)))
    assert training_doubt(fit_with(history(5.0, 1.1, 1.05, 1.01, 1.0))) == ""
    assert training_doubt(fit_with(history(5.0, 1.0, 1.4, 1.1, 1.2, best=2))) == ""
    assert "only twice" in training_doubt(fit_with(history(5.0, 4.0)))


def test_the_file_holds_everything(
    tmp_path: Path, post: sf.Posterior, check: PredictiveCheck, calibrated: Calibration
) -> None:
    path = sf.report(post, path=tmp_path / "r.html", check=check, calibration=calibrated, title="Rain & wind <2>")
    page = path.read_text()
    assert "Rain &amp; wind &lt;2&gt;" in page
    assert page.count("<img ") == 5
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "Believe it." in page
    assert f"{post.mean[0]:.4g}" in page
    assert "sf.sample(key(0, 0), sf.Sampler(...), observed, num_draws=1000, num_chains=4)" in unescape(page)
    with pytest.raises(sf.StorageError, match="there is no folder"):
        sf.report(post, path=tmp_path / "no" / "r.html")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [1200, 390])
def test_a_browser_shows_it_without_errors(
    width: int, tmp_path: Path, post: sf.Posterior, check: PredictiveCheck
) -> None:
    fit = fit_with(history(5.0, 1.1, 1.05, 1.01, 1.0))
    path = sf.report(post, path=tmp_path / "r.html", fit=fit, check=check)
    probe = (
        "<script>addEventListener('load', () => { const page = document.querySelector('iframe').contentDocument;"
        "document.title = JSON.stringify({images: [...page.images].map(image => image.naturalWidth * image.complete),"
        "overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,"
        "wide: page.documentElement.clientWidth}) })</script>"
    )
    frame = f'<iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{escape(path.read_text())}"></iframe>'
    path.write_text(f'<!doctype html><link rel="icon" href="data:,"><title></title>{frame}{probe}')
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1300,900",
        "--virtual-time-budget=5000",
    ]
    command = [str(BROWSER), *options, f"--user-data-dir={tmp_path / 'home'}", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    seen = json.loads(title[1])
    assert len(seen["images"]) == 5
    assert all(seen["images"])
    assert seen["overflow"] == 0
    assert width - 20 <= seen["wide"] <= width  # less a scroll bar
