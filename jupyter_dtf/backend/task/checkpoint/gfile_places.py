"""Places that TensorFlow's own file systems reach (``tf.io.gfile``, plugins included), asked as those of fsspec are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def reaches(url: str) -> bool:
    """Whether TensorFlow is here and has a file system for the scheme of this URL."""
    try:
        import tensorflow as tf
    except ImportError:
        return False
    return url.partition("://")[0] in tf.io.gfile.get_registered_schemes()


class GFileSystem:
    """What ``remote`` asks of a file system of fsspec, by ``tf.io.gfile``. Paths are URLs.

    What is not there is FileNotFoundError; all else is TensorFlow's ``OpError``.
    """

    def __init__(self) -> None:
        import tensorflow as tf

        self._gfile = tf.io.gfile

    def invalidate_cache(self) -> None:
        """Nothing is cached here."""

    def exists(self, path: str) -> bool:
        return bool(self._gfile.exists(path))

    def makedirs(self, path: str, exist_ok: bool) -> None:
        del exist_ok  # TensorFlow has no other way
        self._gfile.makedirs(path)

    def ls(self, path: str, detail: bool) -> list[str]:
        """The URLs of what is in a directory; of a place without directories, of what begins so."""
        del detail
        with _as_file_not_found(path):
            return [f"{path}/{name.rstrip('/')}" for name in self._gfile.listdir(path)]

    def cat_file(self, path: str) -> bytes:
        with _as_file_not_found(path), self._gfile.GFile(path, "rb") as file:
            data: bytes = file.read()
            return data

    def put_file(self, here: str, path: str) -> None:
        if self.exists(path):  # some file systems append to it
            self._gfile.remove(path)
        self._gfile.copy(here, path)

    def get_file(self, path: str, here: str) -> None:
        with _as_file_not_found(path):
            self._gfile.copy(path, here, overwrite=True)

    def rm(self, path: str, recursive: bool) -> None:
        with _as_file_not_found(path):
            (self._gfile.rmtree if recursive else self._gfile.remove)(path)


@contextlib.contextmanager
def _as_file_not_found(path: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(path) from error


def opened(url: str) -> tuple[Any, str]:
    """The file system, and what the place is called in it."""
    return GFileSystem(), url.rstrip("/")
