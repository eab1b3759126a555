"""If a disk is full, the last complete checkpoint survives, and writing continues once there is space."""

from __future__ import annotations

from pathlib import Path

from .small_disk import run_on_small_disks

SCRIPT = """
import sys
from pathlib import Path

import numpy as np

from jupyter_dtf.backend.task.checkpoint import files
from jupyter_dtf.backend.task.checkpoint.writer import Writer
from jupyter_dtf.schema.checkpoint import FORMAT, Checkpoint, Manifest

place = Path(sys.argv[1]) / "checkpoints"
def saved(info, removed):
    print("saved", info.step)

writer = Writer(place, Checkpoint(), saved, lambda *words: print("warned", *words))
for step, size in ((1, 1_000), (2, 10_000_000), (3, 10_000_000), (4, 1_000)):
    manifest = Manifest(format=FORMAT, kind="program", step=step)
    writer.write(manifest, {"a": np.full(size, step)}, files.pickled(step))
    writer.wait()
    print([path.name for path in sorted(place.iterdir())], files.newest(place).arrays()["a"][0])
"""


def test_the_last_complete_one_survives_a_full_disk(tmp_path: Path) -> None:
    lines = run_on_small_disks(SCRIPT, {tmp_path: "size=4m"}, str(tmp_path)).splitlines()
    assert lines[0] == "saved 1"
    assert lines[1] == "['1'] 1"
    assert lines[2].startswith("warned The checkpoint of step 2 was not written")
    assert "No space left on device" in lines[2]
    assert lines[3] == "['1'] 1"
    assert lines[4] == "['1'] 1" or lines[4].startswith("warned The checkpoint of step 3")
    assert lines[-2:] == ["saved 4", "['1', '4'] 4"]
