"""The names in ``horovod.common.util`` that programs use."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

R = TypeVar("R")


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Return whether this package supports the framework: ``tensorflow`` or ``keras``."""
    return ext_base_name in ("tensorflow", "keras")


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


def mpi_built(verbose: bool = False) -> bool:
    return False


def gloo_built(verbose: bool = False) -> bool:
    return False


def nccl_built(verbose: bool = False) -> bool:
    from . import basics

    return basics.nccl_built()


def ddl_built(verbose: bool = False) -> bool:
    return False


def ccl_built(verbose: bool = False) -> bool:
    return False


def split_list(items: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    """Split the items into ``parts`` parts with lengths that differ by at most one."""
    share, more = divmod(len(items), parts)
    starts = [i * share + min(i, more) for i in range(parts + 1)]
    return [items[a:b] for a, b in pairwise(starts)]


def is_iterable(value: Any) -> bool:
    return isinstance(value, Iterable)


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Return whether version ``ver`` is at least ``target``, comparing numbers: ``2.21.0`` is at least ``2.6.0``."""
    return _numbers(ver) >= _numbers(target)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _cache(function: Callable[..., R]) -> Callable[..., R]:
    return functools.cache(function)
