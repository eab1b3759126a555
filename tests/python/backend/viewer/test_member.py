from __future__ import annotations

import asyncio
import os
import time

from jupyter_dtf.backend.viewer.connections import Connection
from jupyter_dtf.backend.viewer.member import Member
from jupyter_dtf.schema.api import ClusterState


def test_a_cluster_that_was_called_silent_stays_so_until_it_answers() -> None:
    async def looked_at() -> None:
        now = time.time()
        member = Member(Connection("ice", "local", ClusterState.RUNNING, os.getpid(), now, now))
        member.reaching_since = asyncio.get_running_loop().time() - 1
        assert not member.look()  # it may still answer in time
        assert member.look(patience_s=0.0)  # without patience, it counts as silent now
        said = member.info.silent_s
        member.look()
        assert member.info.silent_s >= said > 0
        member.reaching_since = None  # it has answered
        assert member.look()
        assert member.info.silent_s == 0

    asyncio.run(looked_at())
