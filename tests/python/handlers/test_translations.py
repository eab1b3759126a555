"""JupyterLab finds the page's translations in the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from .conftest import Fetch

PACK = Path(__file__).parents[2] / "languagepack"


@pytest.fixture
def jp_server_config(monkeypatch: pytest.MonkeyPatch) -> Config:
    # JupyterLab asks only for translations into languages with a language pack.
    monkeypatch.syspath_prepend(str(PACK))
    return Config({"ServerApp": {"jpserver_extensions": {"jupyterlab": True, "jupyter_dtf": True}}})


async def test_jupyterlab_serves_the_page_s_translation_with_its_language_pack(jp_fetch: Fetch) -> None:
    languages = json.loads((await jp_fetch("lab", "api", "translations/")).body)
    assert languages["data"]["de_DE"]["nativeName"] == "Deutsch (Deutschland)"
    answer = json.loads((await jp_fetch("lab", "api", "translations", "de_DE")).body)
    assert answer["message"] == ""
    messages: dict[str, Any] = answer["data"]["jupyter_dtf"]
    assert messages[""]["language"] == "de-DE"
    assert messages["Clusters"] == ["Cluster"]
