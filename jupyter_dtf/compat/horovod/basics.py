"""This task's position among the tasks of its run, and Horovod's functions about its own build."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ...backend.task import context
from ...backend.task.collectives import communicator
from ...backend.task.recorder import Recorder
from ...errors import InvalidInput, Unavailable
from ...schema.launch import TaskSpec
from . import keras2, translated_errors
from . import process_sets as sets

_initialized = False


def init(comm: Any = None, process_sets: Sequence[sets.ProcessSet] | str | None = None) -> None:
    """Connect to the other tasks of the run. Must be called before TensorFlow executes any operation.

    Outside of a run, the program counts as the only task. This function also restores names of Keras 2 that Horovod
    programs use (``keras2``).

    Args:
        comm: None. MPI communicators are not supported.
        process_sets: Process sets to add in all tasks, or ``"dynamic"`` for none. Sets can also be added later.

    Raises:
        InvalidInput: If ``comm`` is not None.

    Example:
        >>> import jupyter_dtf.compat.horovod as hvd
        >>> hvd.init()
        >>> hvd.size()
        1
    """
    global _initialized
    if comm is not None:
        raise InvalidInput(f"`comm` must be None, because there is no MPI, got {comm!r}", field="comm")
    try:
        context.current()
    except RuntimeError:
        context.set_current(_alone())
    keras2.restore()
    translated_errors.restore_classes()
    communicator.communicator()
    _initialized = True
    if process_sets is not None and process_sets != "dynamic":
        sets.add_at_start([process_sets] if isinstance(process_sets, sets.ProcessSet) else list(process_sets))  # type: ignore[arg-type]


def shutdown() -> None:
    """Disconnect from the other tasks. Tasks that wait for this task afterwards get an error."""
    global _initialized
    _initialized = False
    sets.forget_all()
    communicator.close()


def is_initialized() -> bool:
    return _initialized


def rank() -> int:
    return int(_ctx().rank)


def size() -> int:
    return int(_ctx().size)


def local_rank() -> int:
    """Return this task's rank among the tasks on its machine."""
    return _neighbours(_ctx()).index(rank())


def local_size() -> int:
    return len(_neighbours(_ctx()))


def cross_rank() -> int:
    """Return this machine's index among the machines that have a task with this ``local_rank``."""
    return _peers(_ctx()).index(rank())


def cross_size() -> int:
    """Return the number of machines that have a task with this ``local_rank``."""
    return len(_peers(_ctx()))


def is_homogeneous() -> bool:
    """Return whether all machines have the same number of tasks."""
    machines = list(_ctx().machines)
    return len({machines.count(machine) for machine in machines}) == 1


def _ctx() -> context.Context:
    if not _initialized:
        raise InvalidInput("hvd.init() must be called first: this task is not connected to the others yet")
    return context.current()


def _neighbours(ctx: context.Context) -> list[int]:
    return [r for r, machine in enumerate(ctx.machines) if machine == ctx.machines[ctx.rank]]


def _peers(ctx: context.Context) -> list[int]:
    machines = ctx.machines
    own = _neighbours(ctx).index(ctx.rank)
    return [r for r, machine in enumerate(machines) if machines[:r].count(machine) == own]


# -- Horovod's build ------------------------------------------------------------------------------------------------


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
    """Return whether TensorFlow was built for CUDA, which includes NCCL."""
    return cuda_built()


def ddl_built() -> bool:
    return False


def ccl_built() -> bool:
    return False


def cuda_built() -> bool:
    return bool(tf.test.is_built_with_cuda())


def rocm_built() -> bool:
    return bool(tf.test.is_built_with_rocm())


# -- join, and unsupported functions ----------------------------------------------------------------------------


def join(device: int = -1) -> int:
    """Contribute zeros to the sums and averages of the other tasks until all tasks have called this function.

    This is for tasks that run out of data before others. An average is still divided by the number of all tasks.

    Args:
        device: Accepted but ignored.

    Returns:
        The rank of the last task that called this function.

    Raises:
        Unavailable: Unless all tasks are on one machine, or each task is on its own machine.
    """
    _ctx()
    return communicator.communicator().reducer.join()


def run(*args: Any, **kwargs: Any) -> Any:
    """Raise Unavailable: tasks are started by ``cluster.run`` or ``jupyter dtf run`` instead."""
    raise Unavailable(
        "horovod.run is not supported: start the program's tasks with `jupyter dtf run -n 2 program.py`, or with "
        "dtf.Cluster(jobs={'worker': 2}).run(function)"
    )


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Raise Unavailable: Horovod's timeline is not supported."""
    raise Unavailable("Horovod's timeline is not supported: use tf.profiler.experimental.start(logdir)")


def stop_timeline() -> None:
    """Raise Unavailable: Horovod's timeline is not supported."""
    raise Unavailable("Horovod's timeline is not supported: use tf.profiler.experimental.stop()")


def _alone() -> context.Context:
    """Return a context for a program started without a cluster. Its reports are discarded."""
    directory = os.path.join(tempfile.gettempdir(), f"jupyter_dtf-alone-{os.getpid()}")  # created on demand
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
