"""A subprocess job that never answers."""

import signal

signal.pause()
