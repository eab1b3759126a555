"""Reads a script that will run on every task, and finds the flags through which a task passes its job and index."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..backend.task.script_program import Script, is_place_flag
from ..errors import InvalidInput, NotFound
from ..schema.arguments import check_path, check_texts
from ..schema.events import Note
from . import display_hooks
from .following import Follower
from .progress import note_line
from .run import Run
from .waiting import say, stop_in_foreground

_REFRESH_S = 0.2


def read(path: str | Path, arguments: Sequence[str] = ()) -> Script:
    """Read the script at ``path``, with its ``arguments``. Raises NotFound, and InvalidInput if it is not Python."""
    path = check_path(path, "path").absolute()
    arguments = check_texts(arguments, "arguments", "['--epochs', '3']")
    try:
        with tokenize.open(path) as file:
            source = file.read()
        tree = ast.parse(source, str(path))
    except OSError as error:
        raise NotFound(f"The script {str(path)!r} cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise InvalidInput(f"The script must be Python, got {str(path)!r}: {error}", field="path") from None
    given = {_plain(argument) for argument in arguments if argument.startswith("-")}
    asked = [flag for flag in flags_defined(tree) if is_place_flag(flag) and _plain(flag) not in given]
    return Script(path=str(path), source=source, arguments=arguments, place_flags=asked)


def run_in_foreground(run: Run) -> None:
    """Show the output of the tasks, and warnings, until the run has ended.

    An interrupt stops the run; a second one kills it. Raises the run's error if it did not succeed, and
    KeyboardInterrupt after an interrupt.
    """

    def warn() -> None:
        for event in warnings.new_events():
            if isinstance(event, Note) and event.level != "info":
                say(note_line(event))

    interrupted = False
    warnings = Follower(run, warn, _REFRESH_S)
    with display_hooks.here().output_shown(run), warnings:
        try:
            run.wait()
        except KeyboardInterrupt:
            interrupted = True
            stop_in_foreground(run, say, "Stopping the run; interrupt again to end it immediately.")
    if interrupted:
        raise KeyboardInterrupt(f"the run {run.info.name} ({run.id}) is {run.status}")
    run.raise_for_state()


def flags_defined(tree: ast.AST) -> list[str]:
    """Return the long flags, without dashes, that are defined with argparse, click, absl or ``tf.compat.v1.flags``."""
    return list(
        dict.fromkeys(flag for node in ast.walk(tree) if isinstance(node, ast.Call) for flag in _flags_of(node))
    )


def _flags_of(call: ast.Call) -> Iterator[str]:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    values = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "name")]
    words = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    if name.startswith("DEFINE_"):
        yield from words[:1]
    elif name in ("add_argument", "option"):
        yield from (word.removeprefix("--") for word in words if word.startswith("--"))


def _plain(flag: str) -> str:
    """Return a flag without leading dashes and value, and with ``_`` for ``-``, so that equal flags compare equal."""
    return flag.lstrip("-").partition("=")[0].replace("-", "_")
