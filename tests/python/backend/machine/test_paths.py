"""Where files are kept."""

from __future__ import annotations

import tempfile

import pytest

from jupyter_dtf.backend.machine import paths
from jupyter_dtf.errors import Unavailable


def test_a_temporary_directory_that_is_too_deep_for_sockets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"/tmp/{'deep/' * 20}end")
    for make in (lambda: paths.machine_dir("0" * 12), paths.check_writable):
        with pytest.raises(Unavailable, match=r"TMPDIR must be at most \d+ bytes long, .* got '/tmp/deep/"):
            make()
