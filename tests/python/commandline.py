"""The command line in tests: how to call it, and a script that it can run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "jupyter_dtf.cli"]


def dtf_command(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=timeout, check=False)


SCRIPT = """
import argparse, json, os, sys, threading
import beside  # a module in the script's directory

parser = argparse.ArgumentParser()
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
parser.add_argument("--ps_hosts", default="")
parser.add_argument("--worker_hosts", default="")
parser.add_argument("--then", default="end")
flags = parser.parse_args()

import tensorflow.compat.v1 as tf

spec = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
server = tf.train.Server(spec, job_name=flags.job_name, task_index=flags.task_index)
if flags.job_name == "ps":
    server.join()
elif __name__ == "__main__":
    place = json.loads(os.environ["TF_CONFIG"])["task"]
    print(place["type"], place["index"], beside.VALUE, flags.then, os.getcwd(), flush=True)
    if flags.then == "fail" and flags.task_index == 1:
        raise ValueError("no luck")
    elif flags.then == "wait":
        threading.Event().wait()
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    """Write a script in the style of 2016, and return its path: flags tell it its role, and it starts its own server,
    which parameter servers only join.
    """
    directory = tmp_path / "program"
    directory.mkdir()
    (directory / "beside.py").write_text("VALUE = 42\n")
    (directory / "train.py").write_text(SCRIPT)
    return str(directory / "train.py")
