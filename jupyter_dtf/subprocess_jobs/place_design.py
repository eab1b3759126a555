"""A subprocess that computes the automatic placement of a design, which takes seconds for a large model."""

from __future__ import annotations

import sys

from ..backend.planning import check_design
from ..schema.base import decode_json
from ..schema.placement import Placement
from ..schema.subprocess_job import PlaceRequest, answer


def work(argument: bytes) -> Placement:
    """Place the model of a PlaceRequest. Raises InvalidInput, as ``check_design.place`` does."""
    request = decode_json(argument, PlaceRequest)
    return check_design.place(request.design, request.expected_hosts)


if __name__ == "__main__":
    sys.exit(answer(work))
