"""A subprocess job that never responds."""

import signal

signal.pause()
