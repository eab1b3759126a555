"""Early rejection of a call that Keras 3 does not support in a task's program: ``model.fit`` across processes."""

from __future__ import annotations

import functools
import sys
from typing import Any

from ...errors import InvalidInput


def refuse_fit_over_processes() -> None:
    """Make ``fit`` raise InvalidInput under a multi-process strategy; otherwise it is unchanged.

    Does nothing in a process that has not imported Keras.
    """
    if "keras" not in sys.modules:
        return
    # Keras 3.15: every model's fit is this class's method; there is no public hook around it.
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    fit = TensorFlowTrainer.fit
    if getattr(fit, "_dtf_refuses", False):
        return

    @functools.wraps(fit)
    def checked_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        _check(self.distribute_strategy)
        return fit(self, *args, **kwargs)

    checked_fit._dtf_refuses = True  # type: ignore[attr-defined]
    TensorFlowTrainer.fit = checked_fit


def _check(strategy: Any) -> None:
    kinds = [kind.__name__ for kind in type(strategy).__mro__]
    if "ParameterServerStrategyV2" in kinds:
        instead = 'cluster.fit(model, x, y, strategy="ps")'
    elif strategy.extended._in_multi_worker_mode():
        instead = "cluster.fit(model, x, y)"
    else:
        return
    raise InvalidInput(
        "Keras 3 cannot fit a model across several TensorFlow processes: model.fit must be called outside of "
        "MultiWorkerMirroredStrategy and ParameterServerStrategy, got a model created under "
        f"{kinds[0]}. Write {instead} in the notebook in place of this program; or keep the program, create the model "
        "without a strategy and compile it with dtf.DistributedOptimizer(optimizer), which averages the gradients over "
        "the tasks; or keep the strategy and write the training loop yourself, with strategy.run"
    )
