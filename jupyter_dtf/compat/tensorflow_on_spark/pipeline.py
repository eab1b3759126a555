"""TensorFlowOnSpark's ``pipeline``: an estimator that is fed a Dask dataframe, and the model that ``fit`` returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InvalidInput, Unavailable
from . import row_frames, rows, tf_cluster
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
    """Trains with ``train_fn(args, ctx)`` on the nodes of a cluster, to which the rows of a dataframe are fed.

    Args:
        train_fn: The program of each node. Its ``args`` also have the parameters, as attributes.
        tf_args: A dict, a namespace or a list of arguments. A list is passed to the program unchanged.
        export_fn: Must be None, because programs export their models themselves.

    Raises:
        Unavailable: If ``export_fn`` is given.
    """

    def __init__(self, train_fn: Callable[[Any, Any], Any], tf_args: Any, export_fn: Any = None) -> None:
        super().__init__()
        if export_fn is not None:
            raise Unavailable(
                "`export_fn` must be None, because it requires TensorFlow 1. Export the model in train_fn with "
                "compat.export_saved_model"
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
        """Train on a dataframe. Its rows are fed with the columns of the input mapping, in alphabetical order.

        Args:
            dataset: A Dask or pandas dataframe.
            params: Parameter values that replace those of the estimator.
            sc: As in ``TFCluster.run``. By default the existing ``SparkContext``, or a new one.

        Returns:
            The model, with the same parameters.

        Raises:
            InvalidInput: If the input mapping is empty, or names unknown columns. ``TFCluster.run``, ``train`` and
                ``shutdown`` may raise other exceptions.
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
        cluster.train(rows.row_tuples(row_frames.as_dask(dataset), columns), merged.epochs)
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
    """A SavedModel that predicts for the rows of a dataframe in Dask's workers, each of which loads the model once."""

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
        """Return the predictions for the rows of a dataframe. They are computed on request.

        Args:
            dataset: A Dask or pandas dataframe with the columns of the input mapping.
            params: Parameter values that replace those of the model.

        Returns:
            A Dask dataframe with the same partitions. Its columns are those of the output mapping, in the alphabetical
            order of the tensors.

        Raises:
            InvalidInput: If a mapping is empty or names unknown columns, or ``export_dir`` is not set.
        """
        if params:
            return self.copy(params).transform(dataset)
        export_dir = self.getExportDir()
        if not export_dir:
            raise InvalidInput("`export_dir` must be set with setExportDir() before transform()")
        from dask import delayed

        asked = Asked(
            export_dir=export_dir if "://" in export_dir else os.path.abspath(export_dir),
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
        parts = row_frames.as_dask(dataset)[columns].to_delayed()
        names = list(asked.outputs.values())
        return row_frames.of_parts([predict(part, asked) for part in parts], rows.as_frame([], names))


def _columns(mapping: Mapping[str, str], dataset: Any, field: str) -> list[str]:
    """Return the columns of a mapping, in alphabetical order.

    Raises InvalidInput if there are none, or if the dataframe does not have all of them.
    """
    there = [str(column) for column in row_frames.as_dask(dataset).columns]
    missing = [column for column in mapping if column not in there]
    if not mapping or missing:
        raise InvalidInput(
            f"`{field}` must map columns of the dataframe ({', '.join(there)}) to tensors, got {dict(mapping)!r:.200}",
            field=field,
        )
    return sorted(mapping)
