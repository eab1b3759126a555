"""Validates the numeric arguments of ``fit`` and converts them to Python's own types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..schema.arguments import check_integer, is_number

WARMUP_EPOCHS = 5.0
"""The default number of warm-up epochs, from Goyal et al. 2017, section 2.2."""


def check_count(name: str, value: Any, least: int) -> int:
    """Convert an integer of any library to an ``int``. Raises InvalidInput unless it is an integer >= ``least``."""
    return check_integer(value, name, least)


def count_or_none(name: str, value: Any) -> int | None:
    """Return None for None; for any other value, call ``check_count`` with a minimum of 1."""
    return None if value is None else check_count(name, value, 1)


def checked_split(value: Any) -> float:
    if value is not None and not is_number(value):
        raise InvalidInput(
            f"`validation_split` must be a number from 0 to 1, got {value!r:.200}", field="validation_split"
        )
    return float(value or 0.0)


def checked_class_weights(value: Any) -> dict[int, float]:
    """Convert ``class_weight`` to a dict of ``float`` weights, keyed by ``int`` class numbers. Raises InvalidInput."""
    pairs: list[tuple[Any, Any]] = list(value.items()) if isinstance(value, Mapping) else [(None, None)]
    for number, weight in pairs:
        is_class = is_number(number) and float(number).is_integer()
        if not is_class or not is_number(weight) or not np.isfinite(float(weight)):
            raise InvalidInput(
                "`class_weight` must map the numbers of classes to their weights, such as {0: 1.0, 1: 2.5}, got "
                f"{value!r:.200}",
                field="class_weight",
            )
    return {int(number): float(weight) for number, weight in pairs}


def check_frequency(value: Any) -> None:
    """Raise InvalidInput for a ``validation_freq`` with which Keras would fail at the end of the first epoch."""
    if not isinstance(value, (int, list)):
        raise InvalidInput(
            f"Expected `validation_freq` to be a list or int, got {value!r:.200} of the type {type(value).__name__}",
            field="validation_freq",
        )
    if value == 0:
        raise InvalidInput("`validation_freq` must not be 0", field="validation_freq")


def checked_warmup(scale_lr: Any, warmup_epochs: Any) -> float:
    if not isinstance(scale_lr, (bool, np.bool_)):
        raise InvalidInput(f"`scale_lr` must be True or False, got {scale_lr!r}", field="scale_lr")
    if warmup_epochs is None:
        return WARMUP_EPOCHS if scale_lr else 0.0
    if not is_number(warmup_epochs) or not 0 <= warmup_epochs < np.inf:
        raise InvalidInput(f"`warmup_epochs` must be a number >= 0, got {warmup_epochs!r}", field="warmup_epochs")
    if not scale_lr:
        raise InvalidInput(
            "`warmup_epochs` requires scale_lr=True, because only a scaled learning rate is warmed up, got "
            f"warmup_epochs={warmup_epochs!r}, scale_lr=False",
            field="warmup_epochs",
        )
    return float(warmup_epochs)
