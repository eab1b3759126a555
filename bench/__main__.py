"""``python -m bench [NAME ...]``: run the named benchmarks, or all of them, and print a table."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from .table import Row, print_rows

NAMES = (
    "load", "submit", "start", "sending", "steps", "allreduce", "network", "scaling", "report", "points", "latency",
    "ps", "horovod", "pipeline", "placement", "prediction", "designer", "output", "metrics", "viewers", "ssh",
    "many_hosts", "many_tasks", "checkpoints", "restarts", "predict", "dask_feed", "streams", "datasets", "loaders",
    "forecast", "search", "trials", "zooming", "live", "history", "scale_views",
)  # fmt: skip
MODULES = {"ps": "parameter_server"}
"""The modules of the benchmarks that are not named after their module, keyed by name."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; default: all")
    chosen = parser.parse_args().names or list(NAMES)
    if unknown := set(chosen) - set(NAMES):
        parser.error(f"a benchmark must be one of {', '.join(NAMES)}, got {', '.join(sorted(unknown))}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    rows: list[Row] = []
    for name in chosen:
        print(f"{name} ...", file=sys.stderr, flush=True)
        measured = importlib.import_module(f"bench.{MODULES.get(name, name)}").measure()
        print_rows(measured)
        rows += measured
    if len(chosen) > 1:
        print("\nAll:")
        print_rows(rows)
    return 0 if all(row.reached for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
