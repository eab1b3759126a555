"""The names of ``horovod.keras``: the same as those of ``horovod.tensorflow.keras``."""

from ..tensorflow.keras import *  # noqa: F403
from ..tensorflow.keras import __all__ as __all__
