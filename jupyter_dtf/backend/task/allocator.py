"""Settings of the C library's memory allocator for training: memory that a step frees stays with the process.

glibc unmaps a thread's last heap as soon as it is empty. A training step allocates and frees the same blocks each time,
so the system had to provide and clear their pages again in each step: 900 page faults and a fifth of the CPU time in a
small convolutional network fed with batches of 100 kB, whose other memory filled the heap before.
"""

from __future__ import annotations

import ctypes

# malloc.h of glibc
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_HEAP_BYTES = 64 << 20
"""The size of a thread's heap. With this much padding, a heap that becomes empty is kept."""
_LARGEST_BYTES = 32 << 20
"""The largest threshold that glibc accepts. Larger blocks are still mapped separately."""
_KEPT_BYTES = 256 << 20
"""The amount of free memory at the end of a heap that is kept."""


def keep_freed_memory() -> bool:
    """Have this process and its later forks keep freed memory. Returns False for a C library without these settings.

    All three are needed: setting any of them disables glibc's dynamic adjustment of the thresholds. With the padding
    alone, dense networks and transformers took a third longer; the thresholds alone changed nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS
        return False
    wanted = {_M_MMAP_THRESHOLD: _LARGEST_BYTES, _M_TRIM_THRESHOLD: _KEPT_BYTES, _M_TOP_PAD: _HEAP_BYTES}
    accepted = [mallopt(option, value) == 1 for option, value in wanted.items()]
    return all(accepted)
