"""What ``horovod.tensorflow.mpi_ops`` has."""

from __future__ import annotations

from ..process_sets import ids_and_ranks
from . import *  # noqa: F403
from . import __all__  # noqa: F401


class _Basics:
    """What is asked of Horovod's library in C++ by programs that look into its process sets."""

    _get_process_set_ids_and_ranks = staticmethod(ids_and_ranks)


_basics = _Basics()
