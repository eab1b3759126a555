"""The parameters of ``TFEstimator`` and ``TFModel``, each with methods ``set...`` and ``get...``."""

from __future__ import annotations

from typing import TypeVar

from .params import Param, Params, as_bool, as_dict, as_input_mode, as_int, as_protocol, as_text

Self = TypeVar("Self", bound=Params)


class HasBatchSize(Params):
    """The number of rows per batch."""

    batch_size = Param("batch_size", as_int)

    def setBatchSize(self: Self, value: int) -> Self:
        return self._set(batch_size=value)

    def getBatchSize(self) -> int:
        found: int = self.getOrDefault("batch_size")
        return found


class HasClusterSize(Params):
    """The number of nodes in the cluster."""

    cluster_size = Param("cluster_size", as_int)

    def setClusterSize(self: Self, value: int) -> Self:
        return self._set(cluster_size=value)

    def getClusterSize(self) -> int:
        found: int = self.getOrDefault("cluster_size")
        return found


class HasEpochs(Params):
    """The number of times that the data is fed."""

    epochs = Param("epochs", as_int)

    def setEpochs(self: Self, value: int) -> Self:
        return self._set(epochs=value)

    def getEpochs(self) -> int:
        found: int = self.getOrDefault("epochs")
        return found


class HasGraceSecs(Params):
    """The argument ``grace_secs`` of ``TFCluster.shutdown``, which ignores it."""

    grace_secs = Param("grace_secs", as_int)

    def setGraceSecs(self: Self, value: int) -> Self:
        return self._set(grace_secs=value)

    def getGraceSecs(self) -> int:
        found: int = self.getOrDefault("grace_secs")
        return found


class HasInputMapping(Params):
    """A mapping from columns to the names of their tensors."""

    input_mapping = Param("input_mapping", as_dict)

    def setInputMapping(self: Self, value: dict[str, str]) -> Self:
        return self._set(input_mapping=value)

    def getInputMapping(self) -> dict[str, str]:
        found: dict[str, str] = self.getOrDefault("input_mapping")
        return found


class HasInputMode(Params):
    """The input mode, which must be ``InputMode.SPARK``, because a dataframe is fed."""

    input_mode = Param("input_mode", as_input_mode)

    def setInputMode(self: Self, value: int) -> Self:
        return self._set(input_mode=value)

    def getInputMode(self) -> int:
        found: int = self.getOrDefault("input_mode")
        return found


class HasMasterNode(Params):
    """The name of the master's job: ``chief`` or ``master``."""

    master_node = Param("master_node", as_text)

    def setMasterNode(self: Self, value: str | None) -> Self:
        return self._set(master_node=value)

    def getMasterNode(self) -> str | None:
        found: str | None = self.getOrDefault("master_node")
        return found


class HasModelDir(Params):
    """The directory for checkpoints."""

    model_dir = Param("model_dir", as_text)

    def setModelDir(self: Self, value: str | None) -> Self:
        return self._set(model_dir=value)

    def getModelDir(self) -> str | None:
        found: str | None = self.getOrDefault("model_dir")
        return found


class HasNumPS(Params):
    """The number of parameter servers among the nodes."""

    num_ps = Param("num_ps", as_int)

    def setNumPS(self: Self, value: int) -> Self:
        return self._set(num_ps=value)

    def getNumPS(self) -> int:
        found: int = self.getOrDefault("num_ps")
        return found

    driver_ps_nodes = Param("driver_ps_nodes", as_bool)

    def setDriverPSNodes(self: Self, value: bool) -> Self:
        return self._set(driver_ps_nodes=value)

    def getDriverPSNodes(self) -> bool:
        found: bool = self.getOrDefault("driver_ps_nodes")
        return found


class HasOutputMapping(Params):
    """A mapping from the names of output tensors to the columns for their values."""

    output_mapping = Param("output_mapping", as_dict)

    def setOutputMapping(self: Self, value: dict[str, str]) -> Self:
        return self._set(output_mapping=value)

    def getOutputMapping(self) -> dict[str, str]:
        found: dict[str, str] = self.getOrDefault("output_mapping")
        return found


class HasProtocol(Params):
    """The protocol, which must be ``grpc``."""

    protocol = Param("protocol", as_protocol)

    def setProtocol(self: Self, value: str) -> Self:
        return self._set(protocol=value)

    def getProtocol(self) -> str:
        found: str = self.getOrDefault("protocol")
        return found


class HasReaders(Params):
    """A parameter that is accepted for programs that read it, but otherwise unused."""

    readers = Param("readers", as_int)

    def setReaders(self: Self, value: int) -> Self:
        return self._set(readers=value)

    def getReaders(self) -> int:
        found: int = self.getOrDefault("readers")
        return found


class HasSteps(Params):
    """A parameter that is accepted for programs that read it, but otherwise unused."""

    steps = Param("steps", as_int)

    def setSteps(self: Self, value: int) -> Self:
        return self._set(steps=value)

    def getSteps(self) -> int:
        found: int = self.getOrDefault("steps")
        return found


class HasTensorboard(Params):
    """The argument ``tensorboard`` of ``TFCluster.run``: whether to show ``model_dir`` in TensorBoard."""

    tensorboard = Param("tensorboard", as_bool)

    def setTensorboard(self: Self, value: bool) -> Self:
        return self._set(tensorboard=value)

    def getTensorboard(self) -> bool:
        found: bool = self.getOrDefault("tensorboard")
        return found


class HasTFRecordDir(Params):
    """A parameter that is accepted for programs that read it, but otherwise unused."""

    tfrecord_dir = Param("tfrecord_dir", as_text)

    def setTFRecordDir(self: Self, value: str | None) -> Self:
        return self._set(tfrecord_dir=value)

    def getTFRecordDir(self) -> str | None:
        found: str | None = self.getOrDefault("tfrecord_dir")
        return found


class HasExportDir(Params):
    """The directory of the SavedModel."""

    export_dir = Param("export_dir", as_text)

    def setExportDir(self: Self, value: str | None) -> Self:
        return self._set(export_dir=value)

    def getExportDir(self) -> str | None:
        found: str | None = self.getOrDefault("export_dir")
        return found


class HasSignatureDefKey(Params):
    """The signature of the SavedModel to call."""

    signature_def_key = Param("signature_def_key", as_text)

    def setSignatureDefKey(self: Self, value: str | None) -> Self:
        return self._set(signature_def_key=value)

    def getSignatureDefKey(self) -> str | None:
        found: str | None = self.getOrDefault("signature_def_key")
        return found


class HasTagSet(Params):
    """The tags of the graph to load, separated by commas."""

    tag_set = Param("tag_set", as_text)

    def setTagSet(self: Self, value: str | None) -> Self:
        return self._set(tag_set=value)

    def getTagSet(self) -> str | None:
        found: str | None = self.getOrDefault("tag_set")
        return found
