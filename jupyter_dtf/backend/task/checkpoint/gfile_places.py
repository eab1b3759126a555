"""TensorFlow's file systems (``tf.io.gfile``, including plugins) behind fsspec's interface."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def reaches(url: str) -> bool:
    """Return whether TensorFlow is installed and has a file system for the scheme of ``url``."""
    try:
        import tensorflow as tf
    except ImportError:
        return False
    return url.partition("://")[0] in tf.io.gfile.get_registered_schemes()


class GFileSystem:
    """The part of fsspec's interface that the module ``remote`` uses, implemented with ``tf.io.gfile``. Paths are URLs.

    Missing files raise FileNotFoundError; all other errors are TensorFlow's ``OpError``.
    """

    def __init__(self) -> None:
        import tensorflow as tf

        self._gfile = tf.io.gfile

    def invalidate_cache(self) -> None:
        """Do nothing: there is no cache."""

    def exists(self, path: str) -> bool:
        return bool(self._gfile.exists(path))

    def makedirs(self, path: str, exist_ok: bool) -> None:
        del exist_ok  # TensorFlow never fails if the directory exists
        self._gfile.makedirs(path)

    def ls(self, path: str, detail: bool) -> list[str]:
        """Return the URLs of a directory's entries. In a file system without directories, return the URLs with that
        prefix.
        """
        del detail
        with _as_file_not_found(path):
            return [f"{path}/{name.rstrip('/')}" for name in self._gfile.listdir(path)]

    def cat_file(self, path: str) -> bytes:
        with _as_file_not_found(path), self._gfile.GFile(path, "rb") as file:
            data: bytes = file.read()
            return data

    def put_file(self, here: str, path: str) -> None:
        if not self.exists(path):
            self._gfile.copy(here, path)
            return
        aside = f"{path}.new"  # some file systems append to a file that exists
        if self.exists(aside):
            self._gfile.remove(aside)
        self._gfile.copy(here, aside)
        self._gfile.rename(aside, path, overwrite=True)

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
    """Return the file system for ``url`` and the path in it."""
    return GFileSystem(), url.rstrip("/")
