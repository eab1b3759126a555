from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from jupyter_dtf.backend.viewer.templates import Templates
from jupyter_dtf.errors import NotFound, Unavailable
from jupyter_dtf.schema.api import Template
from jupyter_dtf.schema.cluster_request import ClusterRequest


def template(name: str, workers: int = 2) -> Template:
    return Template(name=name, request=ClusterRequest(jobs={"worker": workers}))


def test_templates_are_kept_by_name(tmp_path: Path) -> None:
    templates = Templates(tmp_path / "sub" / "templates.json")
    assert templates.all() == []
    templates.put(template("b"))
    templates.put(template("a"))
    templates.put(template("b", workers=4))
    assert Templates(templates.path).all() == [template("a"), template("b", workers=4)]
    templates.delete("a")
    assert templates.all() == [template("b", workers=4)]
    with pytest.raises(NotFound, match="no template named 'a'"):
        templates.delete("a")


def test_the_file_is_in_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DTF_DATA_DIR", str(tmp_path))
    Templates().put(template("a"))
    assert (tmp_path / "templates.json").exists()


def test_a_damaged_file_is_moved_aside_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "templates.json"
    path.write_text('[{"name": "a", "request": {"jobs": ')
    templates = Templates(path)
    assert templates.all() == []
    assert "is damaged" in caplog.text
    (aside,) = tmp_path.glob("templates.json.damaged-*")
    assert aside.read_text().startswith('[{"name": "a"')
    templates.put(template("b"))
    assert templates.all() == [template("b")]


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "templates.json"
    threads = [threading.Thread(target=lambda i=i: Templates(path).put(template(f"t{i}"))) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Templates(path).all()) == 20
    assert {p.name for p in tmp_path.iterdir()} == {"templates.json", "templates.json.lock"}


def test_a_place_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    templates = Templates(tmp_path / "file" / "templates.json")
    with pytest.raises(Unavailable):
        templates.put(template("a"))
    with pytest.raises(Unavailable):
        templates.all()


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    templates = Templates(tmp_path / "templates.json")
    templates.put(template("a"))
    assert stat.S_IMODE(templates.path.stat().st_mode) == 0o600
