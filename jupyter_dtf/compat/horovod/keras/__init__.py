"""What ``horovod.keras`` has: the same as ``horovod.tensorflow.keras``."""

from ..tensorflow.keras import *  # noqa: F403
from ..tensorflow.keras import __all__ as __all__
