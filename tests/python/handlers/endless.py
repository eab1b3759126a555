"""An errand that never answers."""

import signal

signal.pause()
