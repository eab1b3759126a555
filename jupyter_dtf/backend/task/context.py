"""The implementation of ``ctx``, through which a program queries its place in the cluster, and reports metrics and
other data.
"""

from __future__ import annotations

import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ...errors import InvalidInput
from ...schema import private_files
from ...schema.checkpoint import Checkpoint, CheckpointInfo
from ...schema.cluster import ClusterSpec
from ...schema.disk_space import refusal
from ...schema.events import (
    LEVELS,
    CheckpointSaved,
    EpochEnded,
    Histogram,
    MediaEvent,
    Note,
    Picture,
    Progressed,
    ReportedTable,
    ReportedText,
    TaskChanged,
    TrialValued,
)
from ...schema.launch import TaskSpec
from ...schema.printable import printable
from ...schema.run import Progress, TaskState
from ...schema.text import MAX_WHOLE
from . import media, trace
from .checkpoint.trees import Restored, TreeCheckpoints
from .handover import GoingOver
from .pinned_gpus import gpu_options
from .recorder import MOST_OF_A_NAME, Recorder, number


class Context:
    """The ``ctx`` object of one task. ``schema.context.Context`` documents the members that programs use.

    Ranks are assigned to the chief first, then to the workers, then to jobs of other names in alphabetical order, then
    to ``ps`` and ``evaluator``; in index order within each job.
    """

    def __init__(self, spec: TaskSpec, recorder: Recorder) -> None:
        self._spec = spec
        self._recorder = recorder
        self._stop = threading.Event()
        self._work_done = threading.Event()
        self.checkpoint_wanted = threading.Event()
        """Set when the run is about to lose a machine: ``fit`` then writes a checkpoint after its current step."""
        self._server: Any = None
        self._tree_checkpoints: TreeCheckpoints | None = None
        self.ports: Any = None
        """The ``ClosedPorts`` that guard this task's TensorFlow servers."""
        self.tracer = trace.start(spec, self._tell_traced, recorder.emit)
        """The tracer, which records steps of this task when tracing is requested."""
        self.fed: Callable[[], Any] | None = None
        """The function that creates the dataset for ``feed()``; None if the run has no feed."""
        self.peer_lost = False
        """Whether another task was lost while this one needed it. A failure of this task is then only a consequence of
        that loss.
        """
        self._media = media.Thinned()
        self.went_on = False
        """Whether the program has requested the checkpoint to continue from."""
        self.going_over = GoingOver(recorder, may=spec.may_go_over)
        """The handover of this process to the next attempt of its run."""
        self.without: frozenset[str] = frozenset()
        """The names of lost tasks that cannot be restarted for now, because the cluster has no capacity for them. Other
        tasks do not wait for them.
        """
        self.on_without: Callable[[], None] = lambda: None
        """Called in another thread after ``without`` has changed."""

    def go_without(self, tasks: frozenset[str]) -> None:
        """Set ``without`` to the names of lost tasks, and call ``on_without``."""
        self.without = tasks
        self.on_without()

    def go_over(self, spec: TaskSpec) -> None:
        """Make this process a task of the next attempt, as described by ``spec``."""
        self._spec = spec
        self.peer_lost = False
        self.tracer.break_off()
        os.environ["TF_CONFIG"] = self.cluster_spec.as_tf_config(spec.job_name, spec.task_index)
        self._recorder.begin_attempt(spec.attempt)
        endpoint = self.cluster_spec.endpoint(spec.job_name, spec.task_index)
        running = TaskChanged(
            time=time.time(), task=spec.task, state=TaskState.RUNNING, pid=os.getpid(), endpoint=endpoint
        )
        running.gpus = spec.visible_gpus
        self._recorder.emit(running)

    # -- the task and its run -----------------------------------------------------------------------------------

    @property
    def job_name(self) -> str:
        """The job of this task: ``worker``, ``chief``, ``ps``, ``evaluator`` or any other job of the cluster."""
        return self._spec.job_name

    @property
    def task_index(self) -> int:
        return self._spec.task_index

    @property
    def task(self) -> str:
        """The name of this task, such as ``worker:1``."""
        return self._spec.task

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The endpoints of the run's tasks. ``TF_CONFIG`` contains the same information."""
        return ClusterSpec(self._spec.cluster_spec)

    @property
    def rank(self) -> int:
        return self._spec.rank

    @property
    def size(self) -> int:
        """The number of tasks of the run."""
        return self._spec.size

    @property
    def local_rank(self) -> int:
        """The rank of this task among those on the same machine."""
        return self._spec.local_rank

    @property
    def local_size(self) -> int:
        return self._spec.local_size

    @property
    def machines(self) -> list[str]:
        """The name of each task's machine, in rank order."""
        return list(self._spec.machines)

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks of the run, in rank order."""
        return [f"{job}:{index}" for job, tasks in self._spec.cluster_spec.items() for index in tasks]

    @property
    def gang(self) -> list[str]:
        """The names of all tasks that the run was submitted with, in rank order, including lost tasks that the run
        continues without.
        """
        return list(self._spec.gang) or self.tasks

    @property
    def is_chief(self) -> bool:
        """Whether this task is the chief (rank 0), which writes checkpoints and reports progress."""
        return self._spec.rank == 0

    @property
    def threads(self) -> int:
        """The number of threads that TensorFlow uses in this task."""
        return self._spec.threads

    @property
    def secret(self) -> str:
        """A secret that the run's tasks share: 32 random bytes as hex digits."""
        return self._spec.secret

    @property
    def links(self) -> list[str]:
        """The endpoint, ``host:port``, at which each task accepts connections from other tasks, in rank order. A task
        opens its endpoint only when it is needed.
        """
        return list(self._spec.links)

    @property
    def between_machines(self) -> str:
        """The transport between machines: ``tcp``, or ``ring`` if every task has GPUs of its own."""
        return self._spec.between_machines

    @property
    def run_id(self) -> str:
        return self._spec.run_id

    @property
    def attempt(self) -> int:
        """The number of times that the run's tasks have been started: 1 initially, 2 after the first restart."""
        return self._spec.attempt + 1

    @property
    def rejoins(self) -> bool:
        """Whether only this task was started, to replace a lost task while all other tasks continue."""
        return self._spec.rejoins

    @property
    def joins(self) -> bool:
        """Whether tasks of the previous attempt have moved to this attempt, which continues from their state."""
        return self._spec.joins

    @property
    def goes_on_from(self) -> str:
        """The path of the checkpoint, or of a directory of checkpoints, to continue from; empty if there is none."""
        self.went_on = True
        return self._spec.resume

    @property
    def is_to_go_on(self) -> bool:
        """Whether the run was started with a checkpoint to continue from."""
        return bool(self._spec.resume)

    @property
    def run_dir(self) -> Path:
        """The run's directory, which is kept after the run and is private to this user. When a task ends, all files in
        the directory are made private.
        """
        return _made(Path(self._spec.run_dir))

    @property
    def checkpoint_dir(self) -> Path:
        return _made(self.run_dir / "checkpoints")

    @property
    def shared_dir(self) -> Path:
        """A directory in memory that the tasks on a machine share for the duration of the run."""
        return _made(Path(self._spec.shared_dir))

    @property
    def task_dir(self) -> Path:
        """A directory for this task on its machine, which is removed when the task ends."""
        return _made(Path(self._spec.task_dir))

    @property
    def feed_socket(self) -> str:
        """The path of the socket on which the host serves the rows of partitions that Dask holds."""
        return self._spec.feed

    # -- control ------------------------------------------------------------------------------------------------

    @property
    def should_stop(self) -> bool:
        """Whether a stop of the run was requested. A program that checks this property can end in its own way."""
        return self._stop.is_set()

    @property
    def stop_requested(self) -> threading.Event:
        """The event that is set when ``should_stop`` becomes true."""
        return self._stop

    @property
    def work_done(self) -> threading.Event:
        """The event that is set when no task of the run is still working: each has ended or is waiting in
        ``server.join()``.
        """
        return self._work_done

    @property
    def server(self) -> Any:
        """This task's ``tf.distribute.Server``, started on first use.

        ``server.join()`` waits until all tasks of the run have finished their work; ``server.target`` is for sessions.
        """
        if self._server is None:
            import tensorflow as tf

            config = tf.compat.v1.ConfigProto(
                intra_op_parallelism_threads=self.threads,
                inter_op_parallelism_threads=max(2, self.threads),
                gpu_options=gpu_options(self._spec),
            )
            self._server = tf.distribute.Server(
                self.cluster_spec.as_tf(), job_name=self.job_name, task_index=self.task_index, config=config
            )
        return self._server

    def shard(self, dataset: Any) -> Any:
        """Return every ``size``-th element of a ``tf.data.Dataset``, starting with the element at this task's rank."""
        return dataset.shard(self.size, self.rank)

    def feed(self) -> Any:
        """Return a ``tf.data.Dataset`` with this task's share of every batch of the run's ``feed``.

        Batches are shared among the tasks of the jobs ``chief`` and ``worker``. Each iteration is one pass over the
        data, in a new order. Raises InvalidInput if the run has no ``feed``, and in tasks of other jobs.
        """
        if self.fed is None:
            raise InvalidInput(
                "ctx.feed() requires that the run was started with `feed`: cluster.run(main_fun, args, feed=...)",
                field="feed",
            )
        return self.fed()

    # -- reporting ----------------------------------------------------------------------------------------------

    def report(self, step: float | None = None, **metrics: float) -> None:
        """Report the value of one or more metrics. ``step`` defaults to the last step plus one. Takes microseconds.

        Raises InvalidInput if a value is not a number.
        """
        self._recorder.report(step, metrics)

    def report_histogram(self, name: str, values: Any, step: float | None = None, bins: int = 30) -> None:
        """Report the distribution of an array or tensor of any shape. Non-finite values are counted separately.

        After 1,000 reports under one name, progressively fewer are computed and sent. Raises InvalidInput if a value is
        not a number.
        """
        if self._media.takes(Histogram, name):
            self._show(media.histogram_of(self.task, name, self._at(step), values, bins))

    def report_image(self, name: str, image: Any, step: float | None = None, caption: str = "") -> None:
        """Report an image.

        ``image`` is an array or tensor of shape ``[height, width]`` or ``[height, width, channels]`` with 1, 3 or 4
        channels, of ``uint8`` or of floats from 0 to 1; the bytes of a PNG file; or a Matplotlib figure. After 100
        reports or 4 MiB under one name, progressively fewer are encoded and sent. Raises InvalidInput if ``image`` has
        none of these forms, is wider or higher than 2048 pixels, or is larger than 256 KiB as PNG.
        """
        if self._media.takes(Picture, name):
            self._show(media.picture_of(self.task, name, self._at(step), image, caption))

    def report_text(self, name: str, text: str, step: float | None = None) -> None:
        """Report a string, such as a sample of the model's output. ``step`` defaults to the step of the last
        ``report``.

        After 100 reports or 4 MiB under one name, progressively fewer are sent. Raises InvalidInput if ``text`` is not
        a string, or is longer than 64 KiB.
        """
        if self._media.takes(ReportedText, name):
            self._show(media.text_of(self.task, name, self._at(step), text))

    def report_table(self, name: str, table: Any, step: float | None = None) -> None:
        """Report a table. ``step`` defaults to the step of the last ``report``.

        ``table`` is a DataFrame (its index is omitted), a mapping of columns to their values, or a list of mappings,
        one for each row. After 100 reports or 4 MiB under one name, progressively fewer are sent. Raises InvalidInput
        if ``table`` is not a table, or has more than 1,000 rows, 100 columns or 256 KiB.
        """
        if self._media.takes(ReportedTable, name):
            self._show(media.table_of(self.task, name, self._at(step), table))

    def _at(self, step: float | None) -> float:
        return max(self.last_step, 0.0) if step is None else step

    def _show(self, event: MediaEvent) -> None:
        self._media.sends(event)
        self._recorder.emit(event)

    @property
    def last_step(self) -> float:
        """The step of the program's last report; -1 before the first."""
        return self._recorder.last_step

    @property
    def reported(self) -> int:
        """The number of points that have been reported."""
        return self._recorder.reported

    def measured(self, figures: Mapping[str, float]) -> None:
        """Add figures measured for this task to its machine's figures. This does not affect the program's steps."""
        self._recorder.measure(figures)

    def _tell_traced(self) -> None:
        if self.is_chief:
            first, last = self._spec.trace_steps
            steps = f"Step {first} was" if first == last else f"Steps {first} to {last} were"
            self.note("info", f"{steps} traced", "The timeline, run.timeline() and run.placement() show what ran where")

    def traced(self, step: int) -> AbstractContextManager[None]:
        """Mark the block of ``with ctx.traced(step):`` as step ``step``, counted from 1.

        The operations that run in the block and their devices are recorded if ``step`` is one of the run's
        ``trace_steps``, or while a profile is requested.
        """
        return trace.marked(self.tracer, step)

    def log(self, text: str) -> None:
        """Write a line to this task's output."""
        print(printable(str(text), most=sys.maxsize), flush=True)

    def note(self, level: str, title: str, text: str = "", *, mark: str = "") -> None:
        """Report a note to the user. ``level`` is ``info``, ``warning`` or ``error``. The note is shown among the run's
        events and, if a short ``mark`` is given, on the plots.

        Raises InvalidInput for another level, or if an argument is not a string.
        """
        if level not in LEVELS:
            raise InvalidInput(f"`level` must be one of {', '.join(LEVELS)}, got {level!r:.100}", field="level")
        for field, value in (("title", title), ("text", text), ("mark", mark)):
            if not isinstance(value, str):
                raise InvalidInput(f"`{field}` must be a string, got {value!r:.100}", field=field)
        note = Note(time=time.time(), level=level, title=printable(title, 1_000), text=printable(text), task=self.task)
        note.mark = printable(mark, 100)
        self._recorder.emit(note)

    def progress(self, done: int, total: int = 0, unit: str = "step", epoch: int = 0, epochs: int = 0) -> None:
        """Report the progress of the run: ``done`` units of ``total`` (0: unknown). Only the chief's report is used.

        Raises InvalidInput, in every task, if a count is not an integer >= 0, or ``unit`` is not a string.
        """
        if not isinstance(unit, str):
            raise InvalidInput(f"`unit` must be a string, got {unit!r:.100}", field="unit")
        progress = Progress(
            done=_count(done, "done"),
            total=_count(total, "total"),
            unit=printable(unit, 100),
            epoch=_count(epoch, "epoch"),
            epochs=_count(epochs, "epochs"),
        )
        if self.is_chief:
            self._recorder.emit(Progressed(time=time.time(), progress=progress))

    def epoch_ended(self, epoch: int, step: int, logs: dict[str, float]) -> None:
        """Report the end of an epoch, counted from 0, with logs averaged over all tasks. Only the chief's report is
        used.

        Raises InvalidInput, in every task, if a value is not a number.
        """
        values = {printable(str(name), MOST_OF_A_NAME): number(value, str(name)) for name, value in logs.items()}
        event = EpochEnded(time=time.time(), epoch=_count(epoch, "epoch"), step=_count(step, "step"), logs=values)
        if self.is_chief:
            self._recorder.emit(event)

    def trial_valued(self, values: dict[str, float]) -> None:
        """Report the result of a trial: its values, keyed by objective."""
        self._recorder.emit(TrialValued(time=time.time(), values=values))

    # -- checkpoints --------------------------------------------------------------------------------------------

    def checkpoint(self, step: int, tree: Any) -> None:
        """Write ``tree`` as the checkpoint of ``step``. ``tree`` consists of dicts, lists and tuples that hold arrays,
        tensors, variables and other picklable values. The chief copies it and writes the copy in the background. In
        other tasks, this method does nothing.

        Raises InvalidInput if ``step`` is not an integer >= 0, or a value cannot be pickled.
        """
        count = _count(step, "step")
        if self.is_chief:
            self._checkpoints.write(count, tree)

    def restore(self, step: int | None = None) -> Restored | None:
        """Return ``(step, tree)`` of this run's newest complete checkpoint, or of its checkpoint of ``step`` if that is
        given; None if there is no such checkpoint.

        A run that continues another run reads that run's checkpoints until it has its own. Variables are returned as
        arrays. Raises InvalidInput if the checkpoint is damaged, and NotFound if the checkpoint to continue from does
        not exist.
        """
        self.went_on = True
        return self._checkpoints.read(step, self._spec.resume)

    @property
    def _checkpoints(self) -> TreeCheckpoints:
        if self._tree_checkpoints is None:
            policy = self._spec.checkpoint
            if policy is False:
                raise InvalidInput("checkpoint=False: this run writes no checkpoints", field="checkpoint")
            policy = policy if isinstance(policy, Checkpoint) else Checkpoint()
            self._tree_checkpoints = TreeCheckpoints(self, policy)
        return self._tree_checkpoints

    def checkpoint_saved(self, info: CheckpointInfo, removed: list[int]) -> None:
        """Report that a checkpoint is complete, and that the checkpoints of the steps ``removed`` have been deleted."""
        event = CheckpointSaved(time=time.time(), checkpoint=info, task=self.task, removed=removed)
        self._recorder.emit(event)


def _count(value: Any, name: str) -> int:
    """Return ``value`` as an integer from 0 to ``MAX_WHOLE``. Raises InvalidInput if it is not one."""
    try:
        count = operator.index(int(value) if isinstance(value, float) and value.is_integer() else value)
    except TypeError:
        count = -1
    if not 0 <= count <= MAX_WHOLE or isinstance(value, bool):
        raise InvalidInput(f"`{name}` must be a whole number from 0 to {MAX_WHOLE}, got {value!r:.100}", field=name)
    return count


def _made(path: Path) -> Path:
    try:
        private_files.close(private_files.make_dir(path))
    except OSError as error:
        raise OSError(error.errno, refusal(path, "The run's directory", error)) from error
    return path


def serve(clients: Sequence[str], ctx: Context) -> None:
    """Run a task that only serves the sessions of other processes, until its run is stopped.

    ``clients`` are the addresses of machines, in addition to the run's own, from which sessions may connect.
    """
    ctx.ports.machines.extend(clients)
    ctx.server.join()


_current: Context | None = None


def current() -> Context:
    """Return the context of this process's task. Raises RuntimeError outside a task."""
    if _current is None:
        raise RuntimeError("No run is active here: this process is not a task of a jupyter_dtf cluster")
    return _current


def set_current(context: Context) -> None:
    global _current
    _current = context


def check_gang() -> None:
    """Raise the error for a lost peer if the run has begun a newer attempt. The tasks that this task is waiting for may
    then be lost, so it might wait forever.
    """
    going_over = getattr(_current, "going_over", None)  # a stand-in for a context may not have it
    if going_over is not None and going_over.is_called:
        raise peer_lost("Other tasks of the run were lost, and are being restarted or are rejoining it")


def stays_in_gang() -> None:
    """Declare that this task can no longer move to another attempt of its run."""
    if (going_over := getattr(_current, "going_over", None)) is not None:
        going_over.say(False)


def peer_lost(message: str) -> RuntimeError:
    """Return the error to raise when another task was lost while this one needed it. Record the loss as the cause."""
    if _current is not None:
        _current.peer_lost = True
    return RuntimeError(message)
