"""The README's code runs, as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_the_code_in_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))
    names: dict[str, object] = {}
    exec(compile(code, str(README), "exec"), names)
    assert "The model is ready." in capsys.readouterr().out
    assert (tmp_path / "sims.npz").is_file()
    assert len(names["sims"]) == 10_000  # type: ignore[arg-type]
