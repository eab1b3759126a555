"""Pods as processes of this machine. Each pod has its own address on the loopback network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PULLED, MISSING, BARE = "example.org/dtf:1", "example.org/missing:1", "example.org/bare:1"
"""An image that exists, one that does not, and one without this package."""
NODE_MILLICORES = 64_000
LOOK_S = 0.05
_numbers = iter(range(2, 250))


class Kubelet:
    """Runs one pod and updates its status. ``secret(name)`` returns the files of a secret, ``resolve(name)`` an
    address.
    """

    def __init__(
        self,
        pod: dict[str, Any],
        directory: Path,
        secret: Callable[[str], dict[str, str]],
        resolve: Callable[[str], str],
    ) -> None:
        self.pod = pod
        self.directory = directory
        self.address = f"127.{1 + os.getpid() % 250}.{os.getpid() // 250 % 250}.{next(_numbers)}"
        self.log, self.log_before = "", ""
        self._secret = secret
        self._resolve = resolve
        self._process: asyncio.subprocess.Process | None = None
        self._is_ending = False
        self._task = asyncio.create_task(self._run())

    @property
    def container(self) -> dict[str, Any]:
        found: dict[str, Any] = self.pod["spec"]["containers"][0]
        return found

    async def end(self) -> None:
        self._is_ending = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), 20)
            except asyncio.TimeoutError:
                self._process.kill()
                await self._process.wait()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _status(self, phase: str, state: dict[str, Any], *, ready: bool = False, last: Any = None) -> None:
        self.pod["status"] = {
            "phase": phase,
            "podIP": self.address,
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": str(ready)},
            ],
            "containerStatuses": [{"name": self.container["name"], "state": state, "lastState": last or {}}],
        }

    async def _run(self) -> None:
        wants = self.container["resources"]["limits"]["cpu"]
        if int(wants.removesuffix("m")) > NODE_MILLICORES:
            message = "0/3 nodes are available: 3 Insufficient cpu."
            unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            self.pod["status"] = {"phase": "Pending", "conditions": [unschedulable]}
            return
        if self.container["image"] == MISSING:
            message = f'Back-off pulling image "{MISSING}": not found'
            self._status("Pending", {"waiting": {"reason": "ImagePullBackOff", "message": message}})
            return
        self._status("Pending", {"waiting": {"reason": "ContainerCreating"}})
        last: dict[str, Any] = {}
        while not self._is_ending:
            ended = await self._run_container(last)
            last = {"terminated": {"exitCode": ended, "reason": "Error"}}
            self.log_before = self.log
            self._status("Running", {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, last=last)
            await asyncio.sleep(1)

    async def _run_container(self, last: dict[str, Any]) -> int:
        environment = {**os.environ, **self._environment()}
        if self.container["image"] == BARE:
            hiding = self.directory / "bare" / "jupyter_dtf"
            hiding.mkdir(parents=True, exist_ok=True)
            (hiding / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'jupyter_dtf'\")")
            environment["PYTHONPATH"] = str(hiding.parent)
        self._process = await asyncio.create_subprocess_exec(
            *self._command(environment),
            env=environment,
            cwd=self.directory,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self.log = ""
        reading = asyncio.create_task(self._read())
        probing = asyncio.create_task(self._probe(last))
        try:
            return await self._process.wait()
        finally:
            probing.cancel()
            await asyncio.gather(reading, probing, return_exceptions=True)

    def _environment(self) -> dict[str, str]:
        def value(variable: dict[str, Any]) -> str:
            if "valueFrom" in variable:
                assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
                return self.address
            return self._named(variable["value"])

        return {variable["name"]: value(variable) for variable in self.container["env"]}

    def _command(self, environment: dict[str, str]) -> list[str]:
        """Return the container's command with its variables and mount paths replaced. Its first word is a Python of
        this machine.
        """
        files = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        mounted = {}
        for volume in self.pod["spec"]["volumes"]:
            if "secret" in volume:
                there = self.directory / volume["name"]
                there.mkdir(exist_ok=True)
                for name, text in self._secret(volume["secret"]["secretName"]).items():
                    (there / name).write_text(text)
                mounted[files[volume["name"]]] = str(there)
        words = [sys.executable]
        for word in self.container["command"][1:]:
            known = re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], word)
            for path, real in mounted.items():
                known = known.replace(path, real)
            words.append(known)
        return words

    def _named(self, text: str) -> str:
        return re.sub(r"(?<=://)[\w-]+", lambda found: self._resolve(found[0]) or found[0], text)

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self.log += line.decode(errors="replace")

    async def _probe(self, last: dict[str, Any]) -> None:
        """Mark the pod as ready when its readiness probe succeeds; without a probe, as soon as it runs."""
        self._status("Running", {"running": {}}, last=last)
        ports = {port["name"]: port["containerPort"] for port in self.container.get("ports", [])}
        if probe := self.container.get("readinessProbe"):
            asked = probe["httpGet"]
            while not await self._is_well(ports[asked["port"]], asked["path"]):
                await asyncio.sleep(LOOK_S)
        self._status("Running", {"running": {}}, ready=True, last=last)

    async def _is_well(self, port: int, path: str) -> bool:
        return (await self.ask(port, path)).startswith("HTTP/1.0 200")

    async def ask(self, port: int, path: str) -> str:
        """Return the pod's response to an HTTP request; empty if there is none."""
        try:
            reader, writer = await asyncio.open_connection(self.address, port)
        except OSError:
            return ""
        try:
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            return (await reader.read()).decode()
        except OSError:
            return ""
        finally:
            writer.close()
