"""The life cycle of one task from fork to exit: set up the process, run the program, save the outcome."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec

from ...schema import payload, private_files
from ...schema.cluster import ClusterSpec
from ...schema.disk_space import refusal
from ...schema.events import TaskChanged
from ...schema.launch import Outcome, TaskSpec, leave_outcome, read_next, read_profile, read_without
from ...schema.run import TaskState
from . import context, heartbeat, own_modules, pinned_gpus, thread_pools
from .recorder import Recorder
from .tf_servers import TaskServers
from .unsupported_fit import refuse_fit_over_processes

END_BY_CLUSTER_S = 5.0
"""How long, in seconds, a task that has failed because of another task waits to be killed before it reports a failure.
"""

_PACKAGE = str(Path(__file__).parents[2]) + os.sep


def run(spec: TaskSpec, events_fd: int, control_fd: int) -> int:
    """Run the task's program in this process. Returns the exit status: 0 if the program returned, 1 if it raised."""
    _enter(spec)
    recorder = Recorder(events_fd, spec.task, spec.attempt)
    ctx = context.Context(spec, recorder)
    context.set_current(ctx)
    heartbeat.begin(recorder)
    pinned_gpus.limit_memory(spec, ctx.note)
    servers = TaskServers(ctx, recorder)
    servers.watch()
    threading.Thread(target=_listen, args=(control_fd, ctx), name="dtf-control", daemon=True).start()
    try:
        refuse_fit_over_processes()
        function, args, kwargs = payload.load(spec.payload)
        endpoint = ctx.cluster_spec.endpoint(spec.job_name, spec.task_index)
        recorder.emit(
            TaskChanged(
                time=time.time(),
                task=spec.task,
                state=TaskState.RUNNING,
                pid=os.getpid(),
                endpoint=endpoint,
                gpus=spec.visible_gpus,
            )
        )
        outcome = Outcome(ok=True, result=_pickled(function(*args, ctx, **kwargs)))
    except BaseException as error:
        outcome = _failure(error)
        outcome.peer_lost = not outcome.ok and (ctx.peer_lost or (ctx.size > 1 and _names_a_lost_peer(error)))
        if outcome.peer_lost:
            # The other task should report the cause; once it has, the cluster kills this task.
            threading.Event().wait(END_BY_CLUSTER_S)
    try:
        leave_outcome(Path(spec.task_dir), outcome)
    except OSError as error:
        outcome = _not_left(outcome, spec, error)
        ctx.note("error", f"The result of {spec.task} is lost", outcome.message)
        print(outcome.message, file=sys.stderr, flush=True)
    _wait_for_threads()
    if outcome.ok:
        servers.keep_up()
    _finish(recorder, Path(spec.run_dir), outcome.ok)
    return 0 if outcome.ok else 1


def _enter(spec: TaskSpec) -> None:
    """Set up this process as the task: environment, directory, module path, threads."""
    os.environ.update(spec.environment)
    cluster_spec = ClusterSpec(spec.cluster_spec)
    os.environ["TF_CONFIG"] = cluster_spec.as_tf_config(spec.job_name, spec.task_index)
    pinned_gpus.pin(spec)
    os.environ["TF_GRPC_REUSE_PORT"] = "1"  # the host keeps this task's port bound until TensorFlow listens on it
    if spec.cwd and os.path.isdir(spec.cwd):
        os.chdir(spec.cwd)
    own_modules.persons_path_begins()
    # At the end: a numpy.py next to the notebook must not shadow NumPy.
    sys.path += [entry for entry in spec.sys_path if entry not in sys.path]
    sys.argv = [""]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]

    _set_threads(spec.threads)


def _set_threads(threads: int) -> None:
    import tensorflow as tf

    if tf.config.threading.get_intra_op_parallelism_threads() == threads:
        return  # this process has rehearsed: the runtime is already using that number of threads
    thread_pools.limit(threads)


def learn_to_read() -> None:
    """Do the one-time work for reading a task's spec, so that no fork of this process has to repeat it."""
    from .trace import remote_tracing  # noqa: F401

    with contextlib.suppress(msgspec.ValidationError):  # this input lacks all fields, but creates msgspec's decoder
        msgspec.json.decode(b"{}", type=TaskSpec)
    ClusterSpec({"worker": {0: "localhost:1"}}).as_tf_config("worker", 0)  # compiles regular expressions


def rehearse(threads: int) -> None:
    """Do everything that precedes the first step of any training run, in a process that will become a task."""
    _set_threads(threads)
    from .fit.allreduce.rehearsal import rehearse

    rehearse()
    gc.collect()
    gc.freeze()


def _listen(control_fd: int, ctx: context.Context) -> None:
    """Handle the host's commands. The end of the pipe means that the host is gone.

    ``s`` requests that the program stop, ``c`` that it write a checkpoint; ``e`` reports that no task of the run is
    working any more. The other commands announce a file in the task's directory: ``n``, the specification of the run's
    next attempt; ``p``, the steps to trace; ``w``, the lost tasks that cannot be restarted for lack of capacity.
    """

    def ask_tracer() -> None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):  # the requester is notified that there is no trace
            ctx.tracer.ask(read_profile(ctx.task_dir))

    commands: dict[bytes, Callable[[], object]] = {
        b"s": ctx.stop_requested.set,
        b"c": ctx.checkpoint_wanted.set,
        b"e": ctx.work_done.set,
        b"n": lambda: ctx.going_over.call(read_next(ctx.task_dir)),
        b"p": ask_tracer,
        b"w": lambda: ctx.go_without(read_without(ctx.task_dir)),
    }
    while data := os.read(control_fd, 64):
        for letter, follow in commands.items():
            if letter in data:
                try:
                    follow()
                except Exception:  # a stop, and the end of the host, must still be noticed
                    print(f"The host's command ({letter.decode()}) could not be carried out:", file=sys.stderr)
                    traceback.print_exc()
    os.killpg(0, 9)


def _pickled(value: Any) -> bytes:
    """Pickle the program's return value for sending. Raises TypeError if it cannot be pickled."""
    try:
        data: bytes = cloudpickle.dumps(value, protocol=5)
    except MemoryError:
        raise
    except Exception as error:
        kind = type(value).__qualname__
        raise TypeError(f"The program's return value must be picklable, got {kind}: {error}") from error
    return data


def _failure(error: BaseException) -> Outcome:
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return Outcome(ok=True, result=pickle.dumps(None))
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        trace = trace.tb_next  # omit our own frames, which call the program
    lines = traceback.format_exception(type(error), error, trace or error.__traceback__)
    kind = type(error)
    return Outcome(
        ok=False,
        error=f"{kind.__module__}.{kind.__qualname__}",
        message="".join(traceback.format_exception_only(kind, error)).strip(),
        traceback="".join(lines),
    )


def _not_left(outcome: Outcome, spec: TaskSpec, error: OSError) -> Outcome:
    """Return a failed outcome without a result to replace one that could not be written. Write it if possible."""
    why = refusal(spec.task_dir, "The result", error, needed=len(outcome.result))
    words = Outcome(ok=False, error="OSError", message=why if outcome.ok else f"{outcome.message} ({why})")
    with contextlib.suppress(OSError):
        leave_outcome(Path(spec.task_dir), words)
    return words


def _names_a_lost_peer(error: BaseException) -> bool:
    """Return whether this is the error that TensorFlow raises when a server that it communicates with is gone."""
    errors = sys.modules.get("tensorflow.python.framework.errors_impl")
    return errors is not None and isinstance(error, (errors.UnavailableError, errors.AbortedError))


def _wait_for_threads() -> None:
    """Wait for the program's threads. The interpreter waits for them at exit, but a forked process skips that."""
    main: Any = threading.main_thread()
    for thread in threading.enumerate():
        if thread is not main and thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _finish(recorder: Recorder, run_dir: Path, has_succeeded: bool) -> None:
    """Run exit functions, close the recorder, and flush the streams."""
    atexit._run_exitfuncs()
    private_files.close_tree(run_dir)  # TensorFlow and Keras have written there with the program's umask
    if has_succeeded:  # a failed task may be started again, in the place that it has
        recorder.say_ends()
    recorder.close()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
