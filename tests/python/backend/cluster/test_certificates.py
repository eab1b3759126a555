"""The TLS certificate of a cluster: valid on hosts whose clocks are behind, and required to join."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest
from cryptography import x509
from distributed import Scheduler, Security, Worker

from jupyter_dtf.backend.cluster.certificates import temporary_security


def test_a_host_whose_clock_is_behind_takes_it() -> None:
    tls = temporary_security().get_tls_config_for_role("worker")
    certificate = x509.load_pem_x509_certificate(tls["ca_file"].encode())
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    assert certificate.not_valid_before_utc < now - datetime.timedelta(hours=12)
    assert certificate.not_valid_after_utc > now + datetime.timedelta(days=365)


def test_a_worker_joins_by_it_and_not_by_another() -> None:
    options: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": ":0"}

    async def join(scheduler: Scheduler, security: Security) -> int:
        async with Worker(scheduler.address, nthreads=1, security=security, death_timeout=2, **options):
            return len(scheduler.workers)

    async def join_by_both() -> int:
        security = temporary_security()
        async with Scheduler(port=0, protocol="tls", security=security, **options) as scheduler:
            joined = await join(scheduler, security)
            with pytest.raises((OSError, TimeoutError)):
                await join(scheduler, temporary_security())
            return joined

    assert asyncio.run(join_by_both()) == 1
