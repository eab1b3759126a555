"""``Context``: the interface of the ``ctx`` argument of a program. ``backend/task/context.py`` implements it."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from .cluster import ClusterSpec


class Context(Protocol):
    """The ``ctx`` argument of a program: the position of its task in the run, and methods for reporting.

    ``cluster.run`` calls ``main_fun(args, ctx)``, ``cluster.search`` calls ``train_fn(params, ctx)``, and
    ``cluster.fit`` calls ``data_fn(ctx)``, in every task. Ranks are assigned to the chief first, then to the workers,
    then to other jobs in alphabetical order, then to ``ps`` and ``evaluator``, and within each job in order of index.

    Example:
        >>> def main_fun(args, ctx: dtf.Context):
        ...     for step in range(args["steps"]):
        ...         if ctx.should_stop:
        ...             break
        ...         ctx.report(step, loss=train_step())
        ...     return ctx.rank
        >>> cluster.run(main_fun, {"steps": 100})
    """

    # -- the task and its run -----------------------------------------------------------------------------------

    @property
    def job_name(self) -> str:
        """The job of this task: ``worker``, ``chief``, ``ps``, ``evaluator`` or any other job of the cluster."""

    @property
    def task_index(self) -> int:
        """The index of this task within its job, from 0."""

    @property
    def task(self) -> str:
        """The name of this task, such as ``worker:1``."""

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks of the run, in rank order."""

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The endpoints of the run's tasks, as in ``TF_CONFIG``."""

    @property
    def rank(self) -> int:
        """The rank of this task, from 0."""

    @property
    def size(self) -> int:
        """The number of tasks of the run."""

    @property
    def local_rank(self) -> int:
        """The rank of this task among those on the same machine, from 0."""

    @property
    def local_size(self) -> int:
        """The number of tasks of the run on this machine."""

    @property
    def is_chief(self) -> bool:
        """Whether this is the task that writes checkpoints and reports progress: rank 0."""

    @property
    def threads(self) -> int:
        """The number of threads that TensorFlow uses in this task."""

    @property
    def run_id(self) -> str:
        """The id of the run."""

    @property
    def attempt(self) -> int:
        """The number of times that the run's tasks have been started: 1 at first, 2 after one restart."""

    @property
    def server(self) -> Any:
        """This task's ``tf.distribute.Server``, started on first use.

        ``server.target`` is the address for a ``tf.compat.v1.Session``. ``server.join()`` waits until all tasks of the
        run have finished their work.
        """

    # -- directories --------------------------------------------------------------------------------------------

    @property
    def run_dir(self) -> Path:
        """The directory of the run. It is kept after the run, and only its owner can read it."""

    @property
    def checkpoint_dir(self) -> Path:
        """The directory for checkpoints within ``run_dir``."""

    @property
    def shared_dir(self) -> Path:
        """A directory in memory that is shared by the tasks on this machine for the duration of the run."""

    @property
    def task_dir(self) -> Path:
        """A directory for this task on its machine. It is removed when the task ends."""

    # -- data ---------------------------------------------------------------------------------------------------

    def shard(self, dataset: Any) -> Any:
        """Return this task's share of a dataset: every ``size``-th element, starting with its rank.

        Args:
            dataset: A ``tf.data.Dataset``.

        Returns:
            A ``tf.data.Dataset``.
        """

    def feed(self) -> Any:
        """Return this task's share of the data that was passed to ``cluster.run(..., feed=...)``.

        Returns:
            A ``tf.data.Dataset`` of batches. Each iteration is one pass over the data, in a new order if it is
            shuffled, and ends with the data. A generator can be read only once: if an iteration stops early, the next
            one continues from there; once the generator has ended, iterating again raises an error.

        Raises:
            InvalidInput: If the run has no ``feed``, or the job is neither ``chief`` nor ``worker``.
        """

    # -- stopping -----------------------------------------------------------------------------------------------

    @property
    def should_stop(self) -> bool:
        """Whether a stop of the run was requested. A program that checks this can end in its own way."""

    @property
    def stop_requested(self) -> threading.Event:
        """An event that is set when ``should_stop`` becomes True, for programs that wait for a stop request."""

    # -- reporting ----------------------------------------------------------------------------------------------

    def report(self, step: float | None = None, **metrics: float) -> None:
        """Report the values of one or more metrics, to be plotted. A call takes microseconds.

        Args:
            step: The step that the values belong to. None: one more than in the last call.
            **metrics: A number for each metric.

        Raises:
            InvalidInput: If a value is not a number.
        """

    def report_histogram(self, name: str, values: Any, step: float | None = None, bins: int = 30) -> None:
        """Report the distribution of values, to be shown as a heat map over the steps.

        Args:
            name: A name for the values.
            values: An array or tensor of any shape. Values that are not finite are counted separately.
            step: The step that the values belong to. None: the step of the last ``report``.
            bins: The number of bins.

        Raises:
            InvalidInput: If the values are not numbers.
        """

    def report_image(self, name: str, image: Any, step: float | None = None, caption: str = "") -> None:
        """Report an image.

        Args:
            name: A name for the image.
            image: An array or tensor of shape ``[height, width]``, or ``[height, width, channels]`` with 1, 3 or 4
                channels, of ``uint8`` or of floats from 0 to 1; the bytes of a PNG file; or a Matplotlib figure.
            step: The step that the image belongs to. None: the step of the last ``report``.
            caption: Text to show with the image.

        Raises:
            InvalidInput: If ``image`` has none of these forms, is wider or higher than 2048 pixels, or is larger than
                256 KiB as PNG.
        """

    def report_text(self, name: str, text: str, step: float | None = None) -> None:
        """Report a string, such as a sample of the model's output.

        Beyond 100 strings or 4 MiB under one name, strings are sent less and less often.

        Args:
            name: A name for the string.
            text: The string, at most 64 KiB.
            step: The step that the string belongs to. None: the step of the last ``report``.

        Raises:
            InvalidInput: If ``text`` is not a string, or is too long.
        """

    def report_table(self, name: str, table: Any, step: float | None = None) -> None:
        """Report a table.

        Beyond 100 tables or 4 MiB under one name, tables are sent less and less often.

        Args:
            name: A name for the table.
            table: A DataFrame (without its index), a mapping of columns to their values, or a list of mappings, one for
                each row.
            step: The step that the table belongs to. None: the step of the last ``report``.

        Raises:
            InvalidInput: If ``table`` is not a table, or has more than 1,000 rows, 100 columns or 256 KiB.
        """

    def progress(self, done: int, total: int = 0, unit: str = "step", epoch: int = 0, epochs: int = 0) -> None:
        """Report the progress of the run. Only the chief's report is used.

        Args:
            done: The number of completed units.
            total: The total number of units; 0 if unknown.
            unit: The name of the unit.
            epoch: The current epoch, counted from 1; 0 if there are none.
            epochs: The total number of epochs; 0 if there are none.

        Raises:
            InvalidInput: If a count is not an integer >= 0, or ``unit`` is not a string.
        """

    def epoch_ended(self, epoch: int, step: int, logs: dict[str, float]) -> None:
        """Report the end of an epoch. Only the chief's report is used.

        Args:
            epoch: The number of the epoch, counted from 0.
            step: The number of completed steps, over all epochs.
            logs: The values of the metrics, averaged over the tasks.

        Raises:
            InvalidInput: If a value is not a number.
        """

    def note(self, level: str, title: str, text: str = "", *, mark: str = "") -> None:
        """Report a message to the user, to be shown among the run's events.

        Args:
            level: ``"info"``, ``"warning"`` or ``"error"``.
            title: One line.
            text: Details.
            mark: One or two words with which to mark the current step on the plots.

        Raises:
            InvalidInput: If ``level`` is none of these, or an argument is not a string.
        """

    def log(self, text: str) -> None:
        """Write a line to this task's output.

        Args:
            text: The line.
        """

    def traced(self, step: int) -> AbstractContextManager[None]:
        """Mark a step, so that ``trace_steps`` and ``Run.profile`` can record it.

        Args:
            step: The number of the step, counted from 1.

        Returns:
            A context manager for the code that executes the step.
        """

    # -- checkpoints --------------------------------------------------------------------------------------------

    def checkpoint(self, step: int, tree: Any) -> None:
        """Write a checkpoint. The chief writes it in the background; in other tasks, this does nothing.

        Args:
            step: The step of the checkpoint.
            tree: Dicts, lists and tuples of arrays, tensors, variables and other picklable values, which are copied
                immediately.

        Raises:
            InvalidInput: If ``step`` is not an integer >= 0, or a value cannot be pickled.
        """

    def restore(self, step: int | None = None) -> tuple[int, Any] | None:
        """Read a checkpoint of this run or, if it has none yet, of the run that it continues.

        Args:
            step: The step of the checkpoint. None: the newest.

        Returns:
            ``(step, tree)``, with arrays in place of variables; None if there is no checkpoint.

        Raises:
            InvalidInput: If the checkpoint is damaged.
            NotFound: If the checkpoint that the run should continue from does not exist.
        """
