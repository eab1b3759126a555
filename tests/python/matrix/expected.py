"""The expected outcome of every cell of the matrix. A cell to which no rule applies has to be equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .rows import Differs, Equal, Expected, Refused
from .running import STRATEGIES, TASKS_COUNTED

ALL = STRATEGIES
TASKS = ("allreduce", "ps")
SHARES = ("allreduce", "ps", "mirrored")

RANDOM = "Each task draws its own random numbers: only the chief draws the same ones as one process."
MICROBATCHES = "Random numbers are drawn separately for each microbatch."
STATISTICS = "Batch statistics are computed from a task's share of the batch, or from a microbatch."


class Rule(NamedTuple):
    """The expected outcome of some cells. ``rows`` is a regular expression for ``kind: row``."""

    rows: str
    strategies: Sequence[str]
    expected: Expected
    tasks: Sequence[int] = TASKS_COUNTED


TABLES = "Lookup tables stay in the process that created them: apply such layers to the data beforehand."
UNREBUILT = "Keras cannot rebuild the layer from its own configuration: pass a function that returns the model."
WHOLE_BATCH = (
    "It compares the examples of a batch, but a task sees only its share; a pipeline's loss sees the whole batch."
)
SCALING = "Losses are not scaled under parameter servers: `mixed_bfloat16` needs no scaling."
STATE = "The state of each example carries over to the next batch, so only one task or a pipeline can train it."
OUTPUTS = (
    "In Keras's history, the loss of one of several outputs is a mean over batches; here, it is one over examples."
)
ASSIGNED = "A replica that assigns a value to a weight that is not trained reads the new value only in the next step."
ONE_OPTIMIZER = "The servers apply one optimizer to all trained weights."
TOGETHER = (
    "It uses all variables together, so one ps task must hold them; with three workers, there are two ps tasks here."
)
BY_ROUNDING = "Half precision rounds every result, and the rounding depends on the order of the sums."

DROPPED = "AlphaDropout|Dropout|GaussianDropout|GaussianNoise|SpatialDropout[123]D"
PICTURES = "AugMix|RandAugment|Random(?!Shear).*"

RULES: list[Rule] = [
    Rule(f"layers: ({DROPPED})", TASKS, Differs(20.0, RANDOM)),
    Rule(f"layers: ({PICTURES})", TASKS, Differs(0.5, RANDOM)),
    Rule(f"layers: ({DROPPED})", ("mirrored", "pipeline"), Differs(10.0, MICROBATCHES)),
    Rule(f"layers: ({PICTURES})", ("mirrored", "pipeline"), Differs(0.5, MICROBATCHES)),
    Rule("models: (dropout|random image augmentation|VAE)", TASKS, Differs(5.0, RANDOM)),
    Rule("models: (dropout|random image augmentation|VAE)", ("mirrored", "pipeline"), Differs(5.0, MICROBATCHES)),
    Rule("layers: BatchNormalization|models: ResNet, batch normalization", ALL, Differs(5.0, STATISTICS)),
    Rule("layers: MelSpectrogram", ALL, Equal(2e-4)),  # logarithms of numbers near zero
    Rule("models: layer with a moving average of its weights", ("mirrored",), Differs(0.05, ASSIGNED)),
    Rule("layers: RandomShear", ALL, Refused("could not be rebuilt", UNREBUILT)),
    Rule("layers: (IntegerLookup|StringLookup|TextVectorization)", ("pipeline",), Refused("table", TABLES)),
    Rule("models: (StringLookup|TextVectorization|FeatureSpace) inside", ("pipeline",), Refused("table", TABLES)),
    Rule("losses: (Circle|Dice|Tversky)", SHARES, Refused("batch", WHOLE_BATCH)),
    Rule("models: contrastive loss within the batch", SHARES, Differs(1.0, WHOLE_BATCH + " The run warns about this.")),
    Rule("models: bidirectional GRU, stateful", SHARES, Refused("stateful", STATE)),
    Rule("models: mixed_float16|optimizers: LossScaleOptimizer", ("ps",), Refused("must not scale its loss", SCALING)),
    Rule("models: mixed_b?float16", ALL, Differs(0.03, BY_ROUNDING)),
    Rule("models: (wide and deep, two outputs|two losses with the same name)", ALL, Differs(0.1, OUTPUTS)),
    Rule("models: GAN, two optimizers", ("ps",), Refused("optimizer", ONE_OPTIMIZER)),
    Rule(
        "models: GAN, two optimizers",
        ("pipeline",),
        Refused("input_shapes", "A pipeline places layers, which it can find only in a model that is built."),
    ),
    Rule(
        "models: run_eagerly",
        ("pipeline",),
        Refused("run_eagerly", "The step of a pipeline is a graph that is built only once."),
    ),
    Rule("optimizers: (Adafactor|SGD, global_clipnorm)", ("ps",), Refused("ps tasks", TOGETHER), tasks=(3,)),
    Rule(
        "optimizers: MultiOptimizer",
        ALL,
        Refused("one learning rate", "It has several learning rates, but the tasks agree on only one in each step."),
    ),
    Rule(
        "optimizers: ScheduleFreeAdamW",
        ALL,
        Refused(
            "must be built",
            "Keras builds it within the step, which then resets it every time: call `optimizer.build` beforehand.",
        ),
    ),
]


def expected(kind: str, row: str, strategy: str, tasks: int, tolerance: float) -> Expected:
    """Return the expected outcome of a cell, from the first rule that applies to it."""
    for rule in RULES:
        if strategy in rule.strategies and tasks in rule.tasks and re.fullmatch(rule.rows, f"{kind}: {row}"):
            return rule.expected
    return Equal(tolerance)


def verdict(expected: Expected, error: str, refusal: str, apart: float, what: str) -> str:
    """Return what is wrong with a cell; empty if nothing is."""
    if error:
        return f"failed: {error}"
    match expected:
        case Refused() as refused:
            if not refusal:
                return f"was to be refused ({refused.text!r}), and was trained"
            return "" if refused.text in refusal else f"was to be refused with {refused.text!r}, got: {refusal}"
        case Differs() as differs if not refusal:
            return "" if apart <= differs.limit else f"apart by {apart:.2g}, {differs.limit:.2g} at most: {what}"
        case Equal() as equal if not refusal:
            assert equal.tolerance is not None
            return "" if apart <= equal.tolerance else f"apart by {apart:.2g}, {equal.tolerance:.2g} at most: {what}"
    return f"was refused: {refusal}"
