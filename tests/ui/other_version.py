"""Write the connection file of a cluster that a newer version runs, for pictures: ``python other_version.py NAME PID``.

PID is a process that lives for as long as the cluster is to be seen.
"""

from __future__ import annotations

import sys
import time

import psutil

from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.protocol import Speech

name, pid = sys.argv[1], int(sys.argv[2])
connections.reserve(
    connections.Connection(
        name=name,
        kind="local",
        state=ClusterState.RUNNING,
        pid=pid,
        pid_created=psutil.Process(pid).create_time(),
        created=time.time(),
        jobs={"worker": 4},
        speech=Speech(protocol=9, oldest=8, release="9.0.0"),
    )
)
