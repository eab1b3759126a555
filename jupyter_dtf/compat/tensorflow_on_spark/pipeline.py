"""TensorFlowOnSpark's ``pipeline``: an estimator that is fed a Dask dataframe, and the model that it gives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InvalidInput, Unavailable
from . import frames, rows, tf_cluster
from .params import Namespace, Param, Params, TFParams
from .pipeline_params import (
    HasBatchSize,
    HasClusterSize,
    HasEpochs,
    HasExportDir,
    HasGraceSecs,
    HasInputMapping,
    HasInputMode,
    HasMasterNode,
    HasModelDir,
    HasNumPS,
    HasOutputMapping,
    HasProtocol,
    HasReaders,
    HasSignatureDefKey,
    HasSteps,
    HasTagSet,
    HasTensorboard,
    HasTFRecordDir,
)
from .saved_model_rows import Asked, predict_part

logger = logging.getLogger(__name__)

__all__ = ["Namespace", "Param", "Params", "TFEstimator", "TFModel", "TFParams"]
__all__ += [name for name in dir() if name.startswith("Has")]


class TFEstimator(
    HasInputMapping,
    HasClusterSize,
    HasNumPS,
    HasInputMode,
    HasMasterNode,
    HasProtocol,
    HasGraceSecs,
    HasTensorboard,
    HasModelDir,
    HasExportDir,
    HasTFRecordDir,
    HasBatchSize,
    HasEpochs,
    HasReaders,
    HasSteps,
    TFParams,
):
    """Trains by ``train_fn(args, ctx)`` on the nodes of a cluster, which are fed the rows of a dataframe.

    ``tf_args``: a dict, a namespace, or a list of arguments, which the program then gets as they are. It gets the
    parameters too, by their names. Raises Unavailable for ``export_fn``: a program exports by itself.
    """

    def __init__(self, train_fn: Callable[[Any, Any], Any], tf_args: Any, export_fn: Any = None) -> None:
        super().__init__()
        if export_fn is not None:
            raise Unavailable(
                "`export_fn` is of TensorFlow 1: export the model in train_fn, by compat.export_saved_model"
            )
        self.train_fn = train_fn
        self.args = Namespace(tf_args)
        self._set_default(
            input_mapping={},
            cluster_size=1,
            num_ps=0,
            driver_ps_nodes=False,
            input_mode=tf_cluster.InputMode.SPARK,
            master_node="chief",
            protocol="grpc",
            tensorboard=False,
            model_dir=None,
            export_dir=None,
            tfrecord_dir=None,
            batch_size=100,
            epochs=1,
            readers=1,
            steps=1000,
            grace_secs=30,
        )

    def fit(self, dataset: Any, params: Mapping[Param, Any] | None = None, *, sc: Any = None) -> TFModel:
        """Train on a Dask or pandas dataframe: the columns of the input mapping, in alphabetical order, are a row.

        ``sc``: as of ``TFCluster.run``; without it, the ``SparkContext`` that there is, or a new one. Returns the
        model, with the same parameters. Raises what ``TFCluster.run``, ``train`` and ``shutdown`` raise.
        """
        if params:
            return self.copy(params).fit(dataset, sc=sc)
        columns = _columns(self.getInputMapping(), dataset, "input_mapping")
        if sc is None:
            from .spark_context import SparkContext

            sc = SparkContext.getOrCreate()
        merged = self.merge_args_params()
        cluster = tf_cluster.run(
            sc,
            self.train_fn,
            self.args.argv or merged,
            merged.cluster_size,
            merged.num_ps,
            merged.tensorboard,
            tf_cluster.InputMode.SPARK,
            log_dir=merged.model_dir if merged.tensorboard else None,
            master_node=merged.master_node,
            driver_ps_nodes=merged.driver_ps_nodes,
        )
        cluster.train(rows.row_tuples(frames.as_dask(dataset), columns), merged.epochs)
        cluster.shutdown(grace_secs=merged.grace_secs)
        model: TFModel = self._copy_values(TFModel(self.args))
        return model


class TFModel(
    HasInputMapping,
    HasOutputMapping,
    HasBatchSize,
    HasModelDir,
    HasExportDir,
    HasSignatureDefKey,
    HasTagSet,
    TFParams,
):
    """A SavedModel that answers for the rows of a dataframe, in Dask's workers, each of which loads it once."""

    def __init__(self, tf_args: Any) -> None:
        super().__init__()
        self.args = Namespace(tf_args)
        self._set_default(
            input_mapping={},
            output_mapping={},
            batch_size=100,
            model_dir=None,
            export_dir=None,
            signature_def_key="serving_default",
            tag_set=None,
        )

    def transform(self, dataset: Any, params: Mapping[Param, Any] | None = None) -> Any:
        """A Dask dataframe of the answers, with the same partitions, computed when they are asked for.

        Columns are those of the output mapping, in the alphabetical order of its tensors. Raises InvalidInput for
        mappings that are empty or name no column, and where no ``export_dir`` is set.
        """
        if params:
            return self.copy(params).transform(dataset)
        if not self.getExportDir():
            raise InvalidInput("transform() asks a SavedModel: its directory has to be set by setExportDir()")
        from dask import delayed

        asked = Asked(
            export_dir=str(self.getExportDir()),
            tags=self.getTagSet(),
            signature=self.getSignatureDefKey() or "serving_default",
            inputs=dict(sorted(self.getInputMapping().items())),
            outputs=dict(sorted(self.getOutputMapping().items())),
            batch_size=max(self.getBatchSize(), 1),
        )
        columns = _columns(self.getInputMapping(), dataset, "input_mapping")
        if not asked.outputs:
            raise InvalidInput("`output_mapping` must name at least one tensor, got {}", field="output_mapping")
        predict = delayed(predict_part)
        parts = frames.as_dask(dataset)[columns].to_delayed()
        names = list(asked.outputs.values())
        return frames.of_parts([predict(part, asked) for part in parts], rows.as_frame([], names))


def _columns(mapping: Mapping[str, str], dataset: Any, field: str) -> list[str]:
    """The columns of a mapping, which a dataframe has. Raises InvalidInput."""
    there = [str(column) for column in frames.as_dask(dataset).columns]
    missing = [column for column in mapping if column not in there]
    if not mapping or missing:
        raise InvalidInput(
            f"`{field}` must map columns of the dataframe ({', '.join(there)}) to tensors, got {dict(mapping)!r:.200}",
            field=field,
        )
    return sorted(mapping)
