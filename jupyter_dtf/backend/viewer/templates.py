"""Saved cluster requests, in one JSON file that is written atomically."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import InvalidInput, NotFound, Unavailable
from ...schema import private_files
from ...schema.api import Template
from ...schema.base import decode_json, encode_json, without_defaults
from ..machine import paths

_log = logging.getLogger(__name__)


class Templates:
    """The templates of this user. Several processes may use the file at the same time."""

    def __init__(self, path: str | Path | None = None) -> None:
        """``path`` defaults to ``templates.json`` in ``paths.data_dir()``; the file need not exist."""
        self.path = Path(path) if path is not None else paths.data_dir() / "templates.json"

    def all(self) -> list[Template]:
        """Return all templates, sorted by name. Raises Unavailable if the file cannot be read."""
        return sorted(self._read().values(), key=lambda template: template.name)

    def put(self, template: Template) -> None:
        """Save a template, replacing any with the same name. Raises Unavailable if the file cannot be written."""
        with self._changing() as templates:
            templates[template.name] = template

    def delete(self, name: str) -> None:
        """Delete a template. Raises NotFound."""
        with self._changing() as templates:
            if name not in templates:
                raise NotFound(f"There is no template named {name!r:.100}")
            del templates[name]

    def _read(self) -> dict[str, Template]:
        try:
            data = private_files.read_file(self.path)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Unavailable(f"The file of templates cannot be read: {error}") from error
        try:
            return {template.name: template for template in decode_json(data, list[Template])}
        except InvalidInput as error:
            aside = self.path.with_name(f"{self.path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
            os.replace(self.path, aside)
            _log.warning("%s is damaged (%s); it was moved to %s", self.path, error, aside)
            return {}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Template]]:
        try:
            private_files.make_dir(self.path.parent)
            lock = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise Unavailable(f"The file of templates cannot be written: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            templates = self._read()
            yield templates
            private_files.write_file(self.path, encode_json(without_defaults(list(templates.values()))))
        except OSError as error:
            raise Unavailable(f"The file of templates cannot be written: {error}") from error
        finally:
            os.close(lock)
