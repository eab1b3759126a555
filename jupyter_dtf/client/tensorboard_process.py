"""Runs TensorBoard as a process on this machine that answers only clients that know its secret path."""

from __future__ import annotations

import atexit
import html
import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import Unavailable

_ADDRESS = re.compile(r"http://\S+(?=\s)")
_START_S = 120.0
_LOOK_S = 0.1
_SECRET = "DTF_TENSORBOARD_PATH"
# Every user of a machine can list the arguments of its processes, but not their environment. Without `load_fast`,
# TensorBoard does not start a data server, which would answer anyone.
_PROGRAM = f"""
import os, sys
sys.argv += ["--path_prefix", os.environ.pop({_SECRET!r})]
from tensorboard.main import run_main
run_main()
"""
_OPTIONS = ("--reload_multifile=true", "--load_fast=false", "--host", "127.0.0.1", "--port", "0")


class TensorBoard:
    """Shows a directory of event files until ``close()``, or the end of this process.

    TensorBoard has no passwords, so a secret in the path of ``url`` keeps out the other users of this machine. Raises
    Unavailable if TensorBoard is not installed or does not start.
    """

    def __init__(
        self, log_dir: str | None, *, temporary: str | None = None, at_close: Callable[[], None] = lambda: None
    ) -> None:
        """``temporary``: a directory that is removed by ``close``. ``at_close()`` is called before that."""
        if not self.is_installed():
            raise Unavailable(
                "TensorBoard must be installed on the machine of this process: pip install tensorboard. The run's own "
                "plots work without it"
            )
        self._temporary = temporary
        self._at_close = at_close
        self.log_dir = log_dir or tempfile.mkdtemp(prefix="tensorboard-")
        Path(self.log_dir).mkdir(parents=True, exist_ok=True)
        self._own = Path(tempfile.mkdtemp(prefix="dtf-tensorboard-"))
        # TensorBoard writes the path to a file in the temporary directory, which other users must not be able to read.
        environment = {**os.environ, _SECRET: "/" + secrets.token_urlsafe(24), "TMPDIR": str(self._own)}
        with (self._own / "said").open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, "--logdir", self.log_dir, *_OPTIONS],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        atexit.register(self.close)
        try:
            self.url = self._address()
        except BaseException:
            self.close()
            raise

    def _address(self) -> str:
        ends = time.monotonic() + _START_S
        while True:
            has_ended = self._process.poll() is not None
            said = (self._own / "said").read_text(errors="replace")
            if found := _ADDRESS.search(said):
                return found[0]
            if has_ended or time.monotonic() > ends:
                why = "did not start" if has_ended else f"did not start within {_START_S:g} s"
                raise Unavailable(f"TensorBoard {why}: {said.strip()[-500:]}")
            time.sleep(_LOOK_S)  # there is no notification when a file grows

    def close(self) -> None:
        """End the TensorBoard process and remove its temporary files."""
        atexit.unregister(self.close)
        self._process.terminate()
        self._process.wait()
        self._at_close()
        shutil.rmtree(self._own, ignore_errors=True)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def wait(self) -> None:
        """Wait until TensorBoard has ended."""
        self._process.wait()

    def __repr__(self) -> str:
        ended = "" if self._process.poll() is None else ", closed"
        return f"<TensorBoard at {self.url}, on {self.log_dir}{ended}>"

    def _repr_html_(self) -> str:
        return f'<a href="{html.escape(self.url)}" target="_blank" rel="noopener">TensorBoard</a>'

    @staticmethod
    def is_installed() -> bool:
        """Return whether ``tensorboard`` can be imported."""
        try:
            return importlib.util.find_spec("tensorboard") is not None
        except ValueError:  # its entry in ``sys.modules`` was replaced
            return False
