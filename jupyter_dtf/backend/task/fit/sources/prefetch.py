"""Computes results ahead of their use in several threads or processes, in order and up to a bound."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from ...orphan_cleanup import die_with_parent
from . import failures

_forking = threading.Lock()
"""Held while a process is started, because another process that is forked simultaneously would keep the pipe of the
first one open.
"""


class Ahead:
    """Computes ``call(key)`` for every key, in order. At most ``bound`` results are being computed or waiting to be
    taken.

    ``begin``: if given, each worker is a process that is forked from this one, and therefore has its current state. The
    worker first calls ``begin(number)`` with its own index. Threads are daemons, so a task that ends does not wait for
    them.
    """

    def __init__(
        self,
        call: Callable[[Any], Any],
        keys: Iterable[Any],
        *,
        workers: int,
        bound: int,
        begin: Callable[[int], object] | None = None,
    ) -> None:
        self._call = call
        self._keys = iter(keys)
        self._begin = begin
        self._bound = max(bound, workers)
        self._changed = threading.Condition()
        self._begun = 0
        self._taken = 0
        self._count: int | None = None
        self._stopped = False
        self._results: dict[int, tuple[Any, BaseException | None]] = {}
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name="dtf-reading", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def __iter__(self) -> Iterator[Any]:
        """Yield the results. If a call has raised an exception, that exception is raised instead of yielding a result.
        Ends early when stopped.
        """
        for number in itertools.count():
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or number in self._results or number == self._count)  # noqa: B023
                if self._stopped or number not in self._results:
                    return
                value, error = self._results.pop(number)
                self._taken += 1
                self._changed.notify_all()
            if error is not None:
                raise error
            yield value

    def stop(self) -> None:
        """Stop computing, and wait until the running calls have returned."""
        with self._changed:
            self._stopped = True
            self._results.clear()
            self._changed.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _work(self, worker: int) -> None:
        call, child = self._call, None
        while True:
            with self._changed:
                self._changed.wait_for(self._may_begin)
                if self._stopped or self._count is not None:
                    break
                number = self._begun
                try:
                    key = next(self._keys)
                except StopIteration:
                    self._count = number
                    self._changed.notify_all()
                    break
                self._begun += 1
            outcome: tuple[Any, BaseException | None]
            try:
                if self._begin is not None and child is None:
                    call = child = _Child(self._call, self._begin, worker)
                outcome = call(key), None
            except BaseException as error:
                outcome = None, error
            with self._changed:
                self._results[number] = outcome
                self._changed.notify_all()
        if child is not None:
            child.end()

    def _may_begin(self) -> bool:
        return self._stopped or self._count is not None or self._begun < self._taken + self._bound


class _Child:
    """A child process that computes results for one thread. It ends no later than its parent."""

    def __init__(self, call: Callable[[Any], Any], begin: Callable[[int], object], worker: int) -> None:
        forks = multiprocessing.get_context("fork")
        with _forking:
            self._line, theirs = forks.Pipe()

            def run() -> None:
                self._line.close()  # otherwise the child would keep its own pipe open
                _serve(call, theirs, partial(begin, worker), parent)

            parent = os.getpid()
            self._process = forks.Process(target=run, name=f"dtf-reading-{worker}", daemon=True)
            self._process.start()
            theirs.close()

    def __call__(self, key: Any) -> Any:
        try:
            self._line.send(key)
            value, error, text = self._line.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            error = RuntimeError(f"A process that reads data has died, with exit code {self._process.exitcode}")
            raise failures.of_data(error) from None
        if error is not None:
            raise error from RuntimeError(f"in a process that reads data:\n{text}")
        return value

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._line.send(None)
        self._line.close()
        self._process.join()


def _serve(call: Callable[[Any], Any], line: Any, begin: Callable[[], object], parent: int) -> None:
    die_with_parent()  # processes forked later keep the other end of the pipe open, too
    if os.getppid() != parent:
        return
    begin()
    while (key := line.recv()) is not None:
        answer: tuple[Any, BaseException | None, str]
        try:
            answer = call(key), None, ""
        except BaseException as error:
            answer = None, error, traceback.format_exc()
        try:
            line.send(answer)
        except Exception as error:  # the answer cannot be pickled
            text = f"A batch from another process must be picklable, got {answer[2] or type(answer[0])}: {error}"
            line.send((None, failures.of_data(RuntimeError(text)), answer[2]))
