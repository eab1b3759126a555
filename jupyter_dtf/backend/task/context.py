"""``ctx``: all that a program knows of its place in the cluster, and its ways to speak to the viewers."""

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
from ...schema import private
from ...schema.checkpoint import Checkpoint, CheckpointInfo
from ...schema.cluster import ClusterSpec
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
from ...schema.room import refusal
from ...schema.run import Progress, TaskState
from ...schema.text import MAX_WHOLE
from . import media, trace
from .checkpoint.trees import Restored, TreeCheckpoints
from .going_over import GoingOver
from .pinned_gpus import gpu_options
from .recorder import MOST_OF_A_NAME, Recorder, number


class Context:
    """The place of this task in its run.

    Ranks count the chief first, then the workers, then ``ps``, ``evaluator`` and any other job, each by index.
    """

    def __init__(self, spec: TaskSpec, recorder: Recorder) -> None:
        self._spec = spec
        self._recorder = recorder
        self._stop = threading.Event()
        self._work_done = threading.Event()
        self.checkpoint_wanted = threading.Event()
        """A machine of the run is to go: a training writes a checkpoint at the end of the step that it is in."""
        self._server: Any = None
        self._tree_checkpoints: TreeCheckpoints | None = None
        self.ports: Any = None
        """The ``ClosedPorts`` before this task's TensorFlow servers."""
        self.tracer = trace.start(spec, self._tell_traced, recorder.emit)
        """What records the steps that are to be traced, when any are."""
        self.fed: Callable[[], Any] | None = None
        """What makes the dataset of ``feed()``, where the run is fed."""
        self.peer_lost = False
        """Another task has gone while this one needed it: a failure that follows here is a consequence."""
        self._media = media.Thinned()
        self.went_on = False
        """Whether the program has asked for what it is to go on from."""
        self.going_over = GoingOver(recorder, may=spec.may_go_over)
        """How this process lives on in the next attempt of its run."""

    def go_over(self, spec: TaskSpec) -> None:
        """This process is a task of the next attempt from here on, which ``spec`` says all of."""
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

    # -- where am I ---------------------------------------------------------------------------------------------

    @property
    def job_name(self) -> str:
        """``worker``, ``chief``, ``ps``, ``evaluator`` or any other job of the cluster."""
        return self._spec.job_name

    @property
    def task_index(self) -> int:
        return self._spec.task_index

    @property
    def task(self) -> str:
        """The short name, ``worker:1``."""
        return self._spec.task

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The endpoints of this run's tasks; TF_CONFIG says the same."""
        return ClusterSpec(self._spec.cluster_spec)

    @property
    def rank(self) -> int:
        return self._spec.rank

    @property
    def size(self) -> int:
        """How many tasks the run has."""
        return self._spec.size

    @property
    def local_rank(self) -> int:
        """The rank among the tasks of this machine."""
        return self._spec.local_rank

    @property
    def local_size(self) -> int:
        return self._spec.local_size

    @property
    def machines(self) -> list[str]:
        """The machine of every rank."""
        return list(self._spec.machines)

    @property
    def tasks(self) -> list[str]:
        """The short name of every rank."""
        return [f"{job}:{index}" for job, tasks in self._spec.cluster_spec.items() for index in tasks]

    @property
    def is_chief(self) -> bool:
        """Whether this is the task that writes checkpoints and speaks for the others: rank 0."""
        return self._spec.rank == 0

    @property
    def threads(self) -> int:
        """How many threads TensorFlow's operations use in this task."""
        return self._spec.threads

    @property
    def secret(self) -> str:
        """32 random bytes as hex digits, which the tasks of the run know and nobody else."""
        return self._spec.secret

    @property
    def links(self) -> list[str]:
        """Where the task of each rank takes connections of the others, ``host:port``. Nothing listens there before it
        is needed.
        """
        return list(self._spec.links)

    @property
    def between_machines(self) -> str:
        """What carries exchanges between machines: ``tcp``, or ``ring`` where every task has GPUs to itself."""
        return self._spec.between_machines

    @property
    def run_id(self) -> str:
        return self._spec.run_id

    @property
    def attempt(self) -> int:
        """How often the run's tasks have been started, this time included: 1, and 2 after the first restart."""
        return self._spec.attempt + 1

    @property
    def joins(self) -> bool:
        """Whether tasks of the attempt before live on in this one, which then goes on where they are."""
        return self._spec.joins

    @property
    def goes_on_from(self) -> str:
        """The path of the checkpoint that whoever started the run has named, or of a directory of some; or empty."""
        self.went_on = True
        return self._spec.resume

    @property
    def is_to_go_on(self) -> bool:
        """Whether whoever started the run has named what it is to go on from."""
        return bool(self._spec.resume)

    @property
    def run_dir(self) -> Path:
        """A directory of this run that stays, for this user alone; what is in it is closed to others at the end."""
        return _made(Path(self._spec.run_dir))

    @property
    def checkpoint_dir(self) -> Path:
        return _made(self.run_dir / "checkpoints")

    @property
    def shared_dir(self) -> Path:
        """A directory in memory that the tasks of one machine share while the run lasts."""
        return _made(Path(self._spec.shared_dir))

    @property
    def task_dir(self) -> Path:
        """A directory of this task alone, on its machine, which goes with it."""
        return _made(Path(self._spec.task_dir))

    @property
    def feed_socket(self) -> str:
        """Where the host gives the rows of partitions that Dask holds."""
        return self._spec.feed

    # -- what shall I do ----------------------------------------------------------------------------------------

    @property
    def should_stop(self) -> bool:
        """Whether somebody has asked the run to stop. A program that looks at this ends in its own way."""
        return self._stop.is_set()

    @property
    def stop_requested(self) -> threading.Event:
        """The event behind ``should_stop``, to wait for."""
        return self._stop

    @property
    def work_done(self) -> threading.Event:
        """Set when no task of the run works any more: all have ended, or wait in ``server.join()``."""
        return self._work_done

    @property
    def server(self) -> Any:
        """This task's ``tf.distribute.Server``, started when first asked for.

        ``server.join()`` waits until no task of the run works any more; ``server.target`` is for sessions.
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
        """Every ``size``-th element of a ``tf.data.Dataset``, beginning with this task's rank."""
        return dataset.shard(self.size, self.rank)

    def feed(self) -> Any:
        """A ``tf.data.Dataset`` of this task's shares of the run's ``feed``: of each batch of all tasks of the jobs
        ``chief`` and ``worker`` together, batch by batch. An iteration is a pass; each draws a new order.

        Raises InvalidInput where the run has none, and for tasks of other jobs.
        """
        if self.fed is None:
            raise InvalidInput(
                "ctx.feed() needs data: cluster.run(main_fun, args, feed=...). Received: none", field="feed"
            )
        return self.fed()

    # -- what have I to say -------------------------------------------------------------------------------------

    def report(self, step: float | None = None, **metrics: float) -> None:
        """Put one point of each metric on the plots. ``step`` None counts on from the last. Costs microseconds.

        Raises InvalidInput for what is no number.
        """
        self._recorder.report(step, metrics)

    def report_histogram(self, name: str, values: Any, step: float | None = None, bins: int = 30) -> None:
        """Show how ``values``, an array or tensor of any shape, are distributed at ``step`` (None: that of the last
        ``report``), as a heat map over the steps. Values that are not finite are counted apart.

        Of more than 1,000 of a name ever fewer are counted and sent. Raises InvalidInput for what are no numbers.
        """
        if self._media.takes(Histogram, name):
            self._show(media.histogram_of(self.task, name, self._at(step), values, bins))

    def report_image(self, name: str, image: Any, step: float | None = None, caption: str = "") -> None:
        """Show a picture of ``step`` (None: that of the last ``report``): an array or tensor of the shape
        ``[height, width]`` or ``[height, width, 1, 3 or 4]``, of ``uint8`` or of floats from 0 to 1; the bytes of a PNG
        file; or a figure of Matplotlib's.

        Of more than 100 of a name, or 4 MiB, ever fewer are encoded and sent. Raises InvalidInput for what is no
        picture, and for one that is larger than 2048 pixels or 256 KiB as PNG.
        """
        if self._media.takes(Picture, name):
            self._show(media.picture_of(self.task, name, self._at(step), image, caption))

    def report_text(self, name: str, text: str, step: float | None = None) -> None:
        """Show a text of ``step`` (None: that of the last ``report``), such as a sample of what the model writes.

        Of more than 100 of a name, or 4 MiB, ever fewer are sent. Raises InvalidInput for what is no text, and for one
        of more than 64 KiB.
        """
        if self._media.takes(ReportedText, name):
            self._show(media.text_of(self.task, name, self._at(step), text))

    def report_table(self, name: str, table: Any, step: float | None = None) -> None:
        """Show a table of ``step`` (None: that of the last ``report``): a DataFrame without its index, a mapping of
        columns to their values, or a list of mappings, one for each row.

        Of more than 100 of a name, or 4 MiB, ever fewer are sent. Raises InvalidInput for what is no table, and for one
        of more than 1,000 rows, 100 columns or 256 KiB.
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
        """The step of which the program has reported last; -1 before it has."""
        return self._recorder.last_step

    @property
    def reported(self) -> int:
        """How many points have been reported."""
        return self._recorder.reported

    def measured(self, figures: Mapping[str, float]) -> None:
        """Put what was measured of this task beside the machine's figures. The program's steps go on as they are."""
        self._recorder.measure(figures)

    def _tell_traced(self) -> None:
        if self.is_chief:
            first, last = self._spec.trace_steps
            steps = f"Step {first} is" if first == last else f"Steps {first} to {last} are"
            self.note("info", f"{steps} traced", "The timeline, run.timeline() and run.placement() show what ran where")

    def traced(self, step: int) -> AbstractContextManager[None]:
        """``with ctx.traced(step):`` says that step ``step``, counted from 1, runs inside.

        What ran where is recorded if the run was started with ``trace_steps`` and this is one of them, and while
        somebody asks for a profile.
        """
        return trace.marked(self.tracer, step)

    def log(self, text: str) -> None:
        """Write a line to this task's output."""
        print(printable(str(text), most=sys.maxsize), flush=True)

    def note(self, level: str, title: str, text: str = "", *, mark: str = "") -> None:
        """Tell the person something: ``level`` is info, warning or error. Shown among the run's events, and where there
        is a word or two as ``mark``, marked with that on the plots.

        Raises InvalidInput for another level, and for what is no text.
        """
        if level not in LEVELS:
            raise InvalidInput(f"A note's level is one of {', '.join(LEVELS)}. Received: {level!r:.100}", field="level")
        for field, value in (("title", title), ("text", text), ("mark", mark)):
            if not isinstance(value, str):
                raise InvalidInput(f"`{field}` must be a text, got {value!r:.100}", field=field)
        note = Note(time=time.time(), level=level, title=printable(title, 1_000), text=printable(text), task=self.task)
        note.mark = printable(mark, 100)
        self._recorder.emit(note)

    def progress(self, done: int, total: int = 0, unit: str = "step", epoch: int = 0, epochs: int = 0) -> None:
        """Say how far the run is: ``done`` of ``total`` (0: unknown). Only the chief's word counts.

        Raises InvalidInput, on every task, for what is no whole number from 0, and for a unit that is no text.
        """
        if not isinstance(unit, str):
            raise InvalidInput(f"`unit` must be a text, got {unit!r:.100}", field="unit")
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
        """Record an epoch's logs, averaged over the tasks; ``epoch`` counts from 0. Only the chief's word counts.

        Raises InvalidInput, on every task, for what is no number.
        """
        values = {printable(str(name), MOST_OF_A_NAME): number(value, str(name)) for name, value in logs.items()}
        event = EpochEnded(time=time.time(), epoch=_count(epoch, "epoch"), step=_count(step, "step"), logs=values)
        if self.is_chief:
            self._recorder.emit(event)

    def trial_valued(self, values: dict[str, float]) -> None:
        """Tell what a trial has come to, by objective."""
        self._recorder.emit(TrialValued(time=time.time(), values=values))

    # -- what is to be kept -------------------------------------------------------------------------------------

    def checkpoint(self, step: int, tree: Any) -> None:
        """Have the chief write ``tree`` as the checkpoint of ``step``: dicts, lists and tuples of arrays, tensors,
        variables and what can be pickled. It is copied, and written while the program goes on; other tasks do nothing.

        Raises InvalidInput for a step that is no whole number from 0, and for what cannot be pickled.
        """
        count = _count(step, "step")
        if self.is_chief:
            self._checkpoints.write(count, tree)

    def restore(self, step: int | None = None) -> Restored | None:
        """``(step, tree)`` of this run's newest complete checkpoint, or of that of ``step``; None where there is none.

        While a run that goes on from another one's checkpoints has none of its own, it is of those. Of variables there
        are arrays. Raises InvalidInput for what is damaged, NotFound where what it goes on from is not there.
        """
        self.went_on = True
        return self._checkpoints.read(step, self._spec.resume)

    @property
    def _checkpoints(self) -> TreeCheckpoints:
        if self._tree_checkpoints is None:
            policy = self._spec.checkpoint
            if policy is False:
                raise InvalidInput("checkpoint=False: this run is to write no checkpoints", field="checkpoint")
            policy = policy if isinstance(policy, Checkpoint) else Checkpoint()
            self._tree_checkpoints = TreeCheckpoints(self, policy)
        return self._tree_checkpoints

    def checkpoint_saved(self, info: CheckpointInfo, removed: list[int]) -> None:
        """Record that a checkpoint is complete, and that those of the steps ``removed`` are gone."""
        event = CheckpointSaved(time=time.time(), checkpoint=info, task=self.task, removed=removed)
        self._recorder.emit(event)


def _count(value: Any, name: str) -> int:
    """A whole number from 0 that can be sent. Raises InvalidInput."""
    try:
        count = operator.index(int(value) if isinstance(value, float) and value.is_integer() else value)
    except TypeError:
        count = -1
    if not 0 <= count <= MAX_WHOLE or isinstance(value, bool):
        raise InvalidInput(f"`{name}` must be a whole number from 0 to {MAX_WHOLE}, got {value!r:.100}", field=name)
    return count


def _made(path: Path) -> Path:
    try:
        private.close(private.make_dir(path))
    except OSError as error:
        raise OSError(error.errno, refusal(path, "The run's directory", error)) from error
    return path


def serve(clients: Sequence[str], ctx: Context) -> None:
    """The program of a task that does nothing but serve sessions of others, until its run is stopped.

    ``clients``: addresses of machines from which they come, beside those of the run.
    """
    ctx.ports.machines.extend(clients)
    ctx.server.join()


_current: Context | None = None


def current() -> Context:
    """The context of this process's task. Raises RuntimeError outside a task."""
    if _current is None:
        raise RuntimeError("There is no run here: this is not a task of a jupyter_dtf cluster")
    return _current


def set_current(context: Context) -> None:
    global _current
    _current = context


def check_gang() -> None:
    """Raise as for a lost peer if this run has a newer attempt: nobody may come any more whom this task waits for."""
    going_over = getattr(_current, "going_over", None)  # what stands in a context's place may know of no attempts
    if going_over is not None and going_over.is_called:
        raise peer_lost("Other tasks of the run were lost, and are started again, or come back to it")


def stays_in_gang() -> None:
    """This task cannot go over to another attempt of its run from here on."""
    if (going_over := getattr(_current, "going_over", None)) is not None:
        going_over.say(False)


def peer_lost(message: str) -> RuntimeError:
    """What to raise when another task has gone while this one needs it: the failure of that one is the cause."""
    if _current is not None:
        _current.peer_lost = True
    return RuntimeError(message)
