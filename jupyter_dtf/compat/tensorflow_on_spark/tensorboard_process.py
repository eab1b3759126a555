"""TensorBoard beside a cluster: a process of this machine, which nobody else reaches."""

from __future__ import annotations

import atexit
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ...errors import Unavailable

_ADDRESS = re.compile(r"http://\S+")


class TensorBoard:
    """Shows a directory of event files until ``close()``, or the end of this process. Raises Unavailable."""

    def __init__(self, log_dir: str | None) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise Unavailable(
                "tensorboard=True needs TensorBoard on the machine of this process: pip install tensorboard. The run's "
                "own plots need nothing"
            )
        self.log_dir = log_dir or tempfile.mkdtemp(prefix="tensorboard-")
        Path(self.log_dir).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", self.log_dir, "--reload_multifile=true"]
        self._process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", "0"], stderr=subprocess.PIPE, text=True
        )
        atexit.register(self.close)
        self.url = self._address()

    def _address(self) -> str:
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if found := _ADDRESS.search(line):
                return found[0]
        raise Unavailable(f"TensorBoard did not start: {''.join(said).strip():.500}")

    def close(self) -> None:
        """End it."""
        atexit.unregister(self.close)
        self._process.terminate()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
