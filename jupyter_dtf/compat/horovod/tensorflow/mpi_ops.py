"""The names of ``horovod.tensorflow.mpi_ops``."""

from __future__ import annotations

from ..process_sets import ids_and_ranks
from . import *  # noqa: F403
from . import __all__  # noqa: F401


class _Basics:
    """The part of Horovod's C++ library used by programs that inspect its process sets."""

    _get_process_set_ids_and_ranks = staticmethod(ids_and_ranks)


_basics = _Basics()
