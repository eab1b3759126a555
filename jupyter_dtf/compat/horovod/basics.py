"""The place of this task among the others, and what Horovod can be asked about itself."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ...backend.task import context
from ...backend.task.collectives import communicator
from ...backend.task.collectives.communicator import ProcessSet
from ...backend.task.recorder import Recorder
from ...errors import InvalidInput, Unavailable
from ...schema.launch import TaskSpec
from . import keras2

_initialized = False


def init(comm: Any = None, process_sets: Sequence[ProcessSet] | None = None) -> None:
    """Meet the other tasks of the run; to be called before TensorFlow has run anything.

    Outside of a run there is one task. From here on Keras has again the names of Keras 2 that Horovod's programs use
    (``keras2``). Raises InvalidInput for a communicator of MPI.
    """
    global _initialized
    if comm is not None:
        raise InvalidInput(f"There is no MPI here: comm is None. Received: {comm!r}", field="comm")
    try:
        context.current()
    except RuntimeError:
        context.set_current(_alone())
    keras2.restore()
    communicator.communicator()
    _initialized = True
    for process_set in process_sets or ():
        communicator.add_process_set(process_set)


def shutdown() -> None:
    """Leave the others. They get an error if they wait for this task afterwards."""
    global _initialized
    _initialized = False
    communicator.close()


def is_initialized() -> bool:
    return _initialized


def rank() -> int:
    return int(_ctx().rank)


def size() -> int:
    return int(_ctx().size)


def local_rank() -> int:
    """The rank among the tasks of this machine."""
    return _neighbours(_ctx()).index(rank())


def local_size() -> int:
    return len(_neighbours(_ctx()))


def cross_rank() -> int:
    """This machine's place among those that have a task of this ``local_rank``."""
    return _peers(_ctx()).index(rank())


def cross_size() -> int:
    """How many machines have a task of this ``local_rank``."""
    return len(_peers(_ctx()))


def is_homogeneous() -> bool:
    """Whether all machines have equally many tasks."""
    machines = list(_ctx().machines)
    return len({machines.count(machine) for machine in machines}) == 1


def _ctx() -> context.Context:
    if not _initialized:
        raise InvalidInput("Call hvd.init() first: this task has not met the others yet")
    return context.current()


def _neighbours(ctx: context.Context) -> list[int]:
    return [r for r, machine in enumerate(ctx.machines) if machine == ctx.machines[ctx.rank]]


def _peers(ctx: context.Context) -> list[int]:
    machines = ctx.machines
    own = _neighbours(ctx).index(ctx.rank)
    return [r for r, machine in enumerate(machines) if machines[:r].count(machine) == own]


class _Everyone:
    """The process set of all tasks."""

    process_set_id = 0

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(range(size()))

    def size(self) -> int:
        return size()

    def rank(self) -> int:
        return rank()

    def included(self) -> bool:
        return True


global_process_set = _Everyone()


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """A process set that collectives can be limited to; called by all tasks, also those that are not in it."""
    _ctx()
    return communicator.add_process_set(process_set)


def ours(process_set: Any) -> ProcessSet | None:
    """A process set as ``ops`` takes it: None for all tasks."""
    return None if process_set is None or process_set is global_process_set else process_set


def set_size(process_set: Any) -> int:
    return int(context.current().size if ours(process_set) is None else process_set.size())


def included(process_set: Any) -> bool:
    return ours(process_set) is None or bool(process_set.included())


# -- what Horovod was built with ------------------------------------------------------------------------------------


def mpi_threads_supported() -> bool:
    return False


def mpi_enabled() -> bool:
    return False


def mpi_built() -> bool:
    return False


def gloo_enabled() -> bool:
    return False


def gloo_built() -> bool:
    return False


def nccl_built() -> bool:
    """Whether TensorFlow was built for CUDA, and so with NCCL."""
    return cuda_built()


def ddl_built() -> bool:
    return False


def ccl_built() -> bool:
    return False


def cuda_built() -> bool:
    return bool(tf.test.is_built_with_cuda())


def rocm_built() -> bool:
    return bool(tf.test.is_built_with_rocm())


# -- what is not offered --------------------------------------------------------------------------------------------


def join(device: int = -1) -> int:
    """Refused: a task whose data end before the others' cannot take part with zeros. Raises Unavailable."""
    raise Unavailable(
        "hvd.join is not offered: give every task the same number of batches (steps_per_epoch, dataset.take), or train "
        "by cluster.fit, which takes shares of any size"
    )


def run(*args: Any, **kwargs: Any) -> Any:
    """Refused: tasks are started by ``cluster.run`` or ``jupyter dtf run``. Raises Unavailable."""
    raise Unavailable(
        "horovod.run is not offered: start the program's tasks by `jupyter dtf run -n 2 program.py`, or by "
        "dtf.Cluster(jobs={'worker': 2}).run(function)"
    )


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Refused. Raises Unavailable."""
    raise Unavailable("Horovod's timeline is not offered: use tf.profiler.experimental.start(logdir)")


def stop_timeline() -> None:
    """Refused. Raises Unavailable."""
    raise Unavailable("Horovod's timeline is not offered: use tf.profiler.experimental.stop()")


def _alone() -> context.Context:
    """The context of a program that was started without a cluster: what it reports goes nowhere."""
    directory = os.path.join(tempfile.gettempdir(), f"jupyter_dtf-alone-{os.getpid()}")  # made if it is asked for
    spec = TaskSpec(
        run_id="",
        cluster="",
        job_name="worker",
        task_index=0,
        cluster_spec={"worker": {0: "localhost:0"}},
        rank=0,
        size=1,
        local_rank=0,
        local_size=1,
        machines=[socket.gethostname()],
        threads=os.cpu_count() or 1,
        run_dir=directory,
        stop_grace_s=0.0,
        shared_dir=directory,
    )
    return context.Context(spec, Recorder(os.open(os.devnull, os.O_WRONLY)))
