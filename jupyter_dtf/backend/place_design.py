"""An errand: the automatic placement of a design, which takes seconds where the model is large."""

from __future__ import annotations

import sys

from ..schema.base import Struct, decode_json
from ..schema.design import Design
from ..schema.errand import answer
from ..schema.hosts import HostDesign
from ..schema.placement import Placement
from . import designs


class PlaceRequest(Struct):
    """A design, and the hosts that its kind of cluster promises."""

    design: Design
    promised: list[HostDesign] = []


def work(argument: bytes) -> Placement:
    """Raises InvalidInput, as ``designs.place``."""
    request = decode_json(argument, PlaceRequest)
    return designs.place(request.design, request.promised)


if __name__ == "__main__":
    sys.exit(answer(work))
