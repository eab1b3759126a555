"""Plays rounds of kills, freezes and stops on real clusters: ``make chaos ROUNDS=100 SEED=7``.

A line is printed for each round: what was done in it, and how its run ended. If a round does not go as docs/recovery.md
promises, the command that repeats it is printed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .schedule import Round, round_of


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.python.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="the number of rounds")
    parser.add_argument("--seed", type=int, default=7, help="the seed of their order")
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--round", type=int, help="play only this round")
    parser.add_argument("--seconds", type=float, help="start no round after this many seconds")
    parser.add_argument("--only", default="", help="play only rounds with these words in their line")
    told = parser.parse_args(arguments)
    numbers = [told.round] if told.round is not None else range(told.first, told.first + told.rounds)
    wanted = [this for this in (round_of(told.seed, number) for number in numbers) if _is_meant(this, told.only)]
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as directory:
        _live_in(Path(directory))
        return play(wanted, Path(directory), told.seed, told.seconds)


def _is_meant(this: Round, words: str) -> bool:
    line = " ".join(str(this).split())
    return all(word.strip() in line for word in words.split("+"))


def _live_in(directory: Path) -> None:
    """Put all files of all processes that are started into a directory."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DTF_DATA_DIR", "TMPDIR"):
        os.environ[name] = str(directory / name.lower())
        (directory / name.lower()).mkdir()
    tempfile.tempdir = os.environ["TMPDIR"]


def play(wanted: list[Round], directory: Path, seed: int, seconds: float | None) -> int:
    """Play rounds and print their outcomes. Return the exit status: 1 if a round did not go as promised or something is
    left.
    """
    from .rounds import Rounds

    begun, bad, ends = time.monotonic(), list[int](), Counter[str]()
    rounds = Rounds(directory)
    try:
        for this in wanted:
            if seconds is not None and time.monotonic() - begun > seconds:
                break
            done = rounds.play(this)
            ends[done.status] += 1
            print(f"{this.number:>4} {this}  {done.status:<9} {done.seconds:5.1f} s", flush=True)
            for wrong in done.wrong:
                print(f"     {wrong}", flush=True)
            if done.wrong:
                bad.append(this.number)
    finally:
        left = rounds.close()
    left += [str(path) for path in sorted(Path(os.environ["TMPDIR"]).glob("jupyter_dtf-*/*"))]
    for each in left:
        print(f"left at the end: {each}")
    print(f"{ends.total()} rounds in {time.monotonic() - begun:.0f} s: {dict(ends)}; {len(bad)} not as promised")
    for number in bad:
        print(f"  python -m tests.python.chaos --seed {seed} --round {number}")
    return 1 if bad or left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
