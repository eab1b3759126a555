"""Trains a model placed on the devices of a cluster, using the graph and session of the only client."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

# Keras 3.15: Trainer converts logs with this function; there is no public one.
from keras.src.utils.python_utils import pythonify_logs

from .....errors import InvalidInput
from .....schema.design import RunPlacement
from ...checkpoint.shards import can_be_sliced
from ...describe import layer_graph
from ...trace.device_names import plain
from ..gradient_sync import optimizers_of
from ..learning_rate import LinearScaling
from . import layer_devices as placing
from .device_parts import DeviceParts
from .forward import scope_name
from .layer_devices import Places
from .limits import own_step, refuse_splits
from .pipeline_graph import PipelineGraph
from .step import Step, Steps
from .step_record import run_placement
from .units import Units

_METHODS = {True: "train_step", False: "test_step"}


class Engine:
    """Trains a built model on the devices of ``places``. The model itself is not updated until ``fetch``.

    ``microbatches``: the number of microbatches per replica. ``known_layers``: the names that the placement uses for
    the model's layers, in the order of their calls, if this process built the layers with other names. A step is built
    when a batch first needs it. A batch with fewer examples than microbatches is split into as many microbatches as it
    has examples. Raises InvalidInput for a model that a pipeline cannot train, and for unknown layers or devices.
    """

    def __init__(
        self,
        model: Any,
        places: Places,
        microbatches: int,
        ctx: Any,
        *,
        replicas: int = 1,
        in_turn: bool = False,
        known_layers: Sequence[str] = (),
        scaling: LinearScaling | None = None,
        steps_per_epoch: int | None = None,
    ) -> None:
        layers = layer_graph.layers_by_id(model)
        if known_layers:
            places = places.renamed(layers, known_layers)
        placing.check_layers(places, layers)
        refuse_splits(model, layers, places)
        self._model = model
        self._scaling = scaling
        self._steps_per_epoch = steps_per_epoch or 0
        self._number = 0
        self._microbatches = microbatches * replicas
        self._in_turn = in_turn
        copies = places.copies(ctx.tasks, replicas, ctx.gang)
        client = f"/job:{ctx.job_name}/task:{ctx.task_index}/device:CPU:0"
        self._graph = PipelineGraph(client)
        # Few operations on integers, such as the states of random generators, can run on GPUs.
        config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        self._session = tf.compat.v1.Session(ctx.server.target, graph=self._graph, config=config)
        there = [plain(device.name) for device in self._session.list_devices()]
        if missing := [device for copy in copies for device in copy.all if device not in there]:
            raise InvalidInput(
                f"`placement` must use devices of the run ({', '.join(there)}), got {', '.join(missing)}",
                field="placement.devices",
            )
        self._units = Units(model, layers, copies[0], client)
        with self._graph.as_default():
            self._steps = Steps(model, copies, self._units, client, scaling, in_turn=in_turn)
        self._own = {training: own_step(model, method) for training, method in _METHODS.items()}
        self._built: dict[tuple[bool, int], Step] = {}
        self._reset: tf.Operation | None = None
        self._is_ahead = False
        self._planned = {places.name(path): [d for copy in copies for d in copy.of(path)] for path in layers}
        self.logs: dict[str, Any] = {}
        """The results of the last step; empty if the metrics have been reset since."""
        self.counts: dict[str, float] = {}
        """The counts of the metrics that are means, after the last training step."""
        self.learning_rate = float(tf.convert_to_tensor(model.optimizer.learning_rate))
        """The learning rate of the last step."""
        self.examples = 0
        """The number of examples over all training steps so far."""
        self.order = ""
        """A description of the order of passes in the first training step; empty if the passes need not alternate."""

    def train(self, batch: Any, spec: Any, options: Any = None, run_metadata: Any = None) -> dict[str, Any]:
        """Run one training step, and return the results of the metrics so far. ``spec``: the batches' TensorSpecs.

        ``options`` and ``run_metadata`` are arguments of ``Session.run``.
        """
        step, feeds = self._step(True, batch, spec)
        if self._scaling is not None:
            feeds[self._steps.number.name] = self._number
        self._number += 1
        fetches = [step.run, step.logs.results, step.logs.counts, step.learning_rate]
        _, self.logs, counts, rate = self._session.run(fetches, feeds, options, run_metadata)
        self.counts = dict(zip(step.logs.means, counts.tolist(), strict=True))
        self._is_ahead = True
        self.learning_rate = float(rate)
        self.examples += len(feeds[step.fed[0]])
        return self._told()

    def begin_epoch(self, epoch: int, done: int = 0) -> None:
        """Number steps from the beginning of ``epoch``. ``done`` steps of this epoch have already been taken."""
        self._number = epoch * self._steps_per_epoch + done

    def placement(self, metadata: Any) -> RunPlacement:
        """Return the devices on which the layers ran in a training step, from the step's fully traced RunMetadata."""
        return run_placement(metadata, self._planned, {layer: scope_name(layer) for layer in self._planned})

    def test(self, batch: Any, spec: Any) -> dict[str, Any]:
        """Run one validation step, and return the results of the metrics so far. ``spec``: the batches' TensorSpecs."""
        step, feeds = self._step(False, batch, spec)
        _, self.logs = self._session.run([step.run, step.logs.results], feeds)
        self._is_ahead = True  # layers assign variables during validation, too
        return self._told()

    def reset_metrics(self) -> None:
        self.logs = {}
        if self._reset is not None:
            self._session.run(self._reset)
        else:  # there is no step yet: the devices will get the metrics' values from the model, which may be old ones
            type(self._model).reset_metrics(self._model)

    def metrics_or_logs(self, logs: Any) -> Any:
        """Return the results of the metrics or, if a ``train_step`` returns other values, these ``logs`` of a step, as
        ``model._get_metrics_result_or_logs`` does in Keras.
        """
        if logs and dict(logs) == self.logs:
            return dict(logs)
        # Since that step, callbacks have reset metrics, evaluated the model or added to the logs.
        self._steps.metrics.fetch(self._session)
        return type(self._model)._get_metrics_result_or_logs(self._model, logs)

    def load(self) -> None:
        """Load the weights and optimizer state that have changed in the model into the devices' variables."""
        self._units.take_apart()
        self._steps.variables.load(self._session)

    def load_metrics(self) -> None:
        """Load the states of metrics that callbacks have changed in the model into the devices' variables."""
        self._steps.metrics.load(self._session)

    def fetch(self) -> None:
        """Fetch the weights and the optimizer's state from the devices into the model."""
        if self._is_ahead:
            self._steps.variables.fetch(self._session)
            self._units.put_together()
            self._is_ahead = False

    def fetch_all(self) -> None:
        """Fetch the weights, the optimizer's state and the metrics' state from the devices."""
        self.fetch()
        self._steps.metrics.fetch(self._session)

    def parts(self, variables: Iterable[tuple[str, Any]]) -> DeviceParts | None:
        """Return the interface through which the tasks write those of ``variables`` that they hold, or None if
        TensorFlow cannot merge the variables that are split.

        Each variable comes with its checkpoint key. With this interface, ``fetch_all`` is not needed.
        """
        stored = self._units.stored({id(variable): key for key, variable in variables})
        split = [part for parts in (v for _, v in self._units.split) for part in parts]
        if not all(can_be_sliced(keras.backend.standardize_dtype(part.dtype)) for part in split):
            return None
        optimizers = [self._units.optimizer, *optimizers_of(self._model)[1:]]
        trained = [*self._units.trainable, *(v for optimizer in optimizers for v in optimizer.variables)]
        left_out = {id(variable) for variable in trained}

        def fetch() -> None:
            self._steps.variables.fetch(self._session, left_out)
            self._units.put_together(left_out)
            self._steps.metrics.fetch(self._session)

        return DeviceParts(self._session, self._steps.variables, stored, fetch)

    def close(self) -> None:
        self._session.close()

    def _told(self) -> dict[str, Any]:
        self.logs = pythonify_logs(self.logs)
        return dict(self.logs)

    def _step(self, training: bool, batch: Any, spec: Any) -> tuple[Step, dict[Any, Any]]:
        """Return the step for a batch of this size, and its feeds."""
        arrays = [leaf.numpy() for leaf in keras.tree.flatten(batch) if leaf is not None]
        key = training, 1 if self._own[training] else max(1, min(self._microbatches, len(arrays[0])))
        if key not in self._built:
            try:
                with self._graph.as_default():
                    self._built[key] = self._build(training, spec, key[1])
            except Exception as error:
                raise self._graph.refusal or _refused(error) or error from None
            for variables in (self._steps.variables, self._steps.metrics):
                variables.load(self._session, only_new=True)
        step = self._built[key]
        return step, dict(zip(step.fed, arrays, strict=True))

    def _build(self, training: bool, spec: Any, microbatches: int) -> Step:
        if self._own[training]:
            step = self._steps.own(spec, training)
        else:
            step = (self._steps.training if training else self._steps.test)(spec, microbatches)
        if training and self._in_turn and microbatches > 1 and not self.order:
            order = f"All forward passes precede the first backward pass. {step.filled}"
            self.order = order if step.filled else "Each stage alternates between one forward and one backward pass"
        if self._reset is None:
            self._reset = self._steps.reset()
        return step


def _refused(error: Exception) -> InvalidInput | None:
    """Return a clearer error for one that TensorFlow raises for functions with their own gradients; None for others.

    TensorFlow 2.21: outside of a ``tf.function``, ``tf.custom_gradient`` looks for variables by name, in collections of
    the graph that a model's variables are not in.
    """
    if "Unsuccessful at finding variable" not in str(error):
        return None
    return InvalidInput(
        "`model` must not recompute activations (keras.remat, tf.recompute_grad) or use weights in tf.custom_gradient "
        "in a pipeline, because TensorFlow does not find a model's weights there, got a layer that does. Other "
        "strategies can train it",
        field="model",
    )
