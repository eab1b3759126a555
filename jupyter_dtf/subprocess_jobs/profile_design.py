"""A subprocess that measures a model from a file on the tasks of a cluster. The run ends when the subprocess ends."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from ..client.cluster import Cluster
from ..client.model_placement import calibrate
from ..schema.base import decode_json
from ..schema.placement import Calibration
from ..schema.subprocess_job import MeasureRequest, answer
from .describe_file import load


def work(argument: bytes) -> Calibration:
    """Measure the model of a MeasureRequest.

    Raises NotFound, RunFailed, and InvalidInput if the model cannot be read or is not compiled.
    """
    wanted = decode_json(argument, MeasureRequest)
    cluster = Cluster.connect(wanted.cluster)
    before = {run.id for run in cluster.runs}
    signal.signal(signal.SIGTERM, _end)
    try:
        return calibrate(
            load(Path(wanted.path)), cluster, batch_size=wanted.batch_size, microbatches=wanted.microbatches
        )
    except SystemExit:
        for run in cluster.runs:
            if run.id not in before and run.info.kind == "profile" and not run.info.state.is_final:
                run.stop()
        raise


def _end(number: int, frame: object) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(answer(work))
