"""Tests of reading a pass that the host cannot provide, or provides in a form that cannot be read."""

from __future__ import annotations

import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.backend.task.fit.sources.partitions import _Reader
from jupyter_dtf.errors import ClusterLost
from jupyter_dtf.schema.partitions import LENGTH


@pytest.mark.parametrize(
    ("length", "error"),
    [(1 << 60, MemoryError), (64, struct.error), (128, ClusterLost)],
    ids=["no memory", "nothing readable", "lost"],
)
def test_what_a_reader_meets_reaches_who_waits_for_it(tmp_path: Path, length: int, error: Any) -> None:
    path = str(tmp_path / "host")
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as pool:
        listener.bind(path)
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(LENGTH.pack(length) + b"x" * 64)

        pool.submit(answer)
        request: Any = {"a": 1}
        with _Reader(path, request) as reader, pytest.raises(error):
            reader.next()
