"""Rows for every layer of Keras. Each layer is in its own branch, with trained weights before and after it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import data
from .rows import Trial, slug

INPUTS: dict[str, tuple[Callable[[], Any], str]] = {
    "vector": (data.vector, "float32"),
    "sequence": (data.sequence, "float32"),
    "picture": (data.picture, "float32"),
    "volume": (data.volume, "float32"),
    "film": (data.film, "float32"),
    "sound": (data.sound, "float32"),
    "tokens": (data.tokens, "int32"),
    "words": (data.words, "string"),
    "sentences": (data.sentences, "string"),
}


def _layers() -> Any:
    import keras

    return keras.layers


def classes() -> dict[str, Any]:
    """Return every layer class that Keras exports, keyed by its name."""
    import keras

    found = vars(keras.layers).values()
    return {each.__name__: each for each in found if inspect.isclass(each) and issubclass(each, keras.layers.Layer)}


def _make(name: str, *args: Any, **kwargs: Any) -> Callable[[str], Any]:
    return lambda called: classes()[name](*args, name=called, **kwargs)


def _adapted(name: str, values: Callable[[], Any], **kwargs: Any) -> Callable[[str], Any]:
    def make(called: str) -> Any:
        layer = getattr(_layers(), name)(name=called, **kwargs)
        layer.adapt(values())
        return layer

    return make


def _around(name: str, inner: Callable[[], Any], **kwargs: Any) -> Callable[[str], Any]:
    return lambda called: getattr(_layers(), name)(inner(), name=called, **kwargs)


def _dense(units: int) -> Callable[[], Any]:
    return lambda: _layers().Dense(units)


def _adaptive(kind: str, dimensions: int, size: int) -> Callable[[str], Any]:
    return _make(f"Adaptive{kind}Pooling{dimensions}D", size)


def _same(x: Any) -> Any:
    return x * 2.0


def _cells() -> Any:
    return _layers().StackedRNNCells([_layers().LSTMCell(3), _layers().GRUCell(2)])


Spec = tuple[str, Callable[[str], Any]]
"""The name of the layer's input, and a function that creates the layer with a given name."""

ONE: dict[str, Spec] = {
    "Activation": ("vector", _make("Activation", "tanh")),
    "ActivityRegularization": ("vector", _make("ActivityRegularization", l2=0.1)),
    "AdaptiveAveragePooling1D": ("sequence", _adaptive("Average", 1, 2)),
    "AdaptiveAveragePooling2D": ("picture", _adaptive("Average", 2, 2)),
    "AdaptiveAveragePooling3D": ("volume", _adaptive("Average", 3, 2)),
    "AdaptiveMaxPooling1D": ("sequence", _adaptive("Max", 1, 2)),
    "AdaptiveMaxPooling2D": ("picture", _adaptive("Max", 2, 2)),
    "AdaptiveMaxPooling3D": ("volume", _adaptive("Max", 3, 2)),
    "AlphaDropout": ("vector", _make("AlphaDropout", 0.3, seed=1)),
    "AveragePooling1D": ("sequence", _make("AveragePooling1D", 2)),
    "AveragePooling2D": ("picture", _make("AveragePooling2D", 2)),
    "AveragePooling3D": ("volume", _make("AveragePooling3D", 2)),
    "BatchNormalization": ("vector", _make("BatchNormalization")),
    "Bidirectional": ("sequence", _around("Bidirectional", lambda: _layers().GRU(3))),
    "CategoryEncoding": ("tokens", _make("CategoryEncoding", 17, output_mode="multi_hot")),
    "CenterCrop": ("picture", _make("CenterCrop", 6, 6)),
    "Conv1D": ("sequence", _make("Conv1D", 3, 2)),
    "Conv1DTranspose": ("sequence", _make("Conv1DTranspose", 3, 2)),
    "Conv2D": ("picture", _make("Conv2D", 3, 2)),
    "Conv2DTranspose": ("picture", _make("Conv2DTranspose", 2, 2)),
    "Conv3D": ("volume", _make("Conv3D", 2, 2)),
    "Conv3DTranspose": ("volume", _make("Conv3DTranspose", 2, 2)),
    "ConvLSTM1D": ("film1", _make("ConvLSTM1D", 2, 2)),
    "ConvLSTM2D": ("film", _make("ConvLSTM2D", 2, 2)),
    "ConvLSTM3D": ("film3", _make("ConvLSTM3D", 2, 2)),
    "Cropping1D": ("sequence", _make("Cropping1D", 1)),
    "Cropping2D": ("picture", _make("Cropping2D", 1)),
    "Cropping3D": ("volume", _make("Cropping3D", 1)),
    "Dense": ("vector", _make("Dense", 5, activation="relu", kernel_regularizer="l2", kernel_constraint="max_norm")),
    "DepthwiseConv1D": ("sequence", _make("DepthwiseConv1D", 2)),
    "DepthwiseConv2D": ("picture", _make("DepthwiseConv2D", 2)),
    "Discretization": ("vector", _adapted("Discretization", data.vector, num_bins=4)),
    "Dropout": ("vector", _make("Dropout", 0.3, seed=1)),
    "ELU": ("vector", _make("ELU")),
    "EinsumDense": ("sequence", _make("EinsumDense", "abc,cd->abd", output_shape=(6, 3), bias_axes="d")),
    "Embedding": ("tokens", _make("Embedding", 17, 3, mask_zero=True)),
    "Flatten": ("sequence", _make("Flatten")),
    "GRU": ("sequence", _make("GRU", 3)),
    "GaussianDropout": ("vector", _make("GaussianDropout", 0.3, seed=1)),
    "GaussianNoise": ("vector", _make("GaussianNoise", 0.3, seed=1)),
    "GlobalAveragePooling1D": ("sequence", _make("GlobalAveragePooling1D")),
    "GlobalAveragePooling2D": ("picture", _make("GlobalAveragePooling2D")),
    "GlobalAveragePooling3D": ("volume", _make("GlobalAveragePooling3D")),
    "GlobalMaxPooling1D": ("sequence", _make("GlobalMaxPooling1D")),
    "GlobalMaxPooling2D": ("picture", _make("GlobalMaxPooling2D")),
    "GlobalMaxPooling3D": ("volume", _make("GlobalMaxPooling3D")),
    "GroupNormalization": ("picture", _make("GroupNormalization", 3)),
    "Hashing": ("words", _make("Hashing", 7)),
    "Identity": ("vector", _make("Identity")),
    "IntegerLookup": ("tokens", _adapted("IntegerLookup", data.tokens, output_mode="multi_hot")),
    "LSTM": ("sequence", _make("LSTM", 3)),
    "Lambda": ("vector", _make("Lambda", _same)),
    "LayerNormalization": ("sequence", _make("LayerNormalization")),
    "LeakyReLU": ("vector", _make("LeakyReLU")),
    "Masking": ("sequence", _make("Masking")),
    "MaxPooling1D": ("sequence", _make("MaxPooling1D", 2)),
    "MaxPooling2D": ("picture", _make("MaxPooling2D", 2)),
    "MaxPooling3D": ("volume", _make("MaxPooling3D", 2)),
    "MelSpectrogram": ("sound", _make("MelSpectrogram", fft_length=16, sequence_stride=8, num_mel_bins=4)),
    "Normalization": ("vector", _adapted("Normalization", data.vector)),
    "PReLU": ("vector", _make("PReLU")),
    "Permute": ("sequence", _make("Permute", (2, 1))),
    "Pipeline": ("picture", lambda called: _layers().Pipeline([_layers().Rescaling(2.0)], name=called)),
    "RMSNormalization": ("vector", _make("RMSNormalization")),
    "RNN": ("sequence", _around("RNN", _cells)),
    "ReLU": ("vector", _make("ReLU")),
    "RepeatVector": ("vector", _make("RepeatVector", 2)),
    "Rescaling": ("vector", _make("Rescaling", 0.5, 0.1)),
    "Reshape": ("vector", _make("Reshape", (4, 2))),
    "Resizing": ("picture", _make("Resizing", 6, 6)),
    "ReversibleEmbedding": ("tokens", _make("ReversibleEmbedding", 17, 3)),
    # Not the default mode "log": with it, changing the inputs by 1e-7 changes the outcome in one process by 9e-4.
    "STFTSpectrogram": (
        "wave",
        _make("STFTSpectrogram", mode="magnitude", frame_length=16, frame_step=8, fft_length=16),
    ),
    "SeparableConv1D": ("sequence", _make("SeparableConv1D", 3, 2)),
    "SeparableConv2D": ("picture", _make("SeparableConv2D", 3, 2)),
    "SimpleRNN": ("sequence", _make("SimpleRNN", 3)),
    "Softmax": ("vector", _make("Softmax")),
    "Solarization": ("picture", _make("Solarization", value_range=(0.0, 1.0))),
    "SpatialDropout1D": ("sequence", _make("SpatialDropout1D", 0.3, seed=1)),
    "SpatialDropout2D": ("picture", _make("SpatialDropout2D", 0.3, seed=1)),
    "SpatialDropout3D": ("volume", _make("SpatialDropout3D", 0.3, seed=1)),
    "SpectralNormalization": ("vector", _around("SpectralNormalization", _dense(5))),
    "StringLookup": ("words", _adapted("StringLookup", data.words, output_mode="multi_hot")),
    "TextVectorization": ("sentences", _adapted("TextVectorization", data.sentences, output_sequence_length=3)),
    "TimeDistributed": ("sequence", _around("TimeDistributed", _dense(3))),
    "UnitNormalization": ("vector", _make("UnitNormalization")),
    "UpSampling1D": ("sequence", _make("UpSampling1D", 2)),
    "UpSampling2D": ("picture", _make("UpSampling2D", 2)),
    "UpSampling3D": ("volume", _make("UpSampling3D", 2)),
    "ZeroPadding1D": ("sequence", _make("ZeroPadding1D", 1)),
    "ZeroPadding2D": ("picture", _make("ZeroPadding2D", 1)),
    "ZeroPadding3D": ("volume", _make("ZeroPadding3D", 1)),
    # random changes to pictures, and the layers that these consist of
    "AugMix": ("picture", _make("AugMix", value_range=(0.0, 1.0), seed=1)),
    "AutoContrast": ("picture", _make("AutoContrast", value_range=(0.0, 1.0))),
    "ContrastLimitedAdaptiveHistogramEqualization": (
        "picture", _make("ContrastLimitedAdaptiveHistogramEqualization", value_range=(0.0, 1.0), tile_grid_size=(2, 2))
    ),
    "Equalization": ("picture", _make("Equalization", value_range=(0.0, 1.0))),
    "RandAugment": ("picture", _make("RandAugment", value_range=(0.0, 1.0), seed=1)),
    "RandomBrightness": ("picture", _make("RandomBrightness", 0.2, value_range=(0.0, 1.0), seed=1)),
    "RandomColorDegeneration": ("picture", _make("RandomColorDegeneration", 0.5, value_range=(0.0, 1.0), seed=1)),
    "RandomColorJitter": ("picture", _make("RandomColorJitter", value_range=(0.0, 1.0), brightness_factor=0.2, seed=1)),
    "RandomContrast": ("picture", _make("RandomContrast", 0.2, value_range=(0.0, 1.0), seed=1)),
    "RandomCrop": ("picture", _make("RandomCrop", 6, 6, seed=1)),
    "RandomElasticTransform": ("picture", _make("RandomElasticTransform", value_range=(0.0, 1.0), seed=1)),
    "RandomErasing": ("picture", _make("RandomErasing", value_range=(0.0, 1.0), seed=1)),
    "RandomFlip": ("picture", _make("RandomFlip", seed=1)),
    "RandomGaussianBlur": ("picture", _make("RandomGaussianBlur", value_range=(0.0, 1.0), seed=1)),
    "RandomGrayscale": ("picture", _make("RandomGrayscale", seed=1)),
    "RandomHue": ("picture", _make("RandomHue", 0.2, value_range=(0.0, 1.0), seed=1)),
    "RandomInvert": ("picture", _make("RandomInvert", value_range=(0.0, 1.0), seed=1)),
    "RandomPerspective": ("picture", _make("RandomPerspective", seed=1)),
    "RandomPosterization": ("picture", _make("RandomPosterization", 4, value_range=(0.0, 1.0), seed=1)),
    "RandomRotation": ("picture", _make("RandomRotation", 0.1, seed=1)),
    "RandomSaturation": ("picture", _make("RandomSaturation", 0.2, value_range=(0.0, 1.0), seed=1)),
    "RandomSharpness": ("picture", _make("RandomSharpness", 0.5, value_range=(0.0, 1.0), seed=1)),
    "RandomShear": ("picture", _make("RandomShear", 0.2, 0.2, seed=1)),
    "RandomTranslation": ("picture", _make("RandomTranslation", 0.2, 0.2, seed=1)),
    "RandomZoom": ("picture", _make("RandomZoom", 0.2, seed=1)),
}  # fmt: skip

SEVERAL: dict[str, Callable[[str], Any]] = {
    name: _make(name, **arguments)  # type: ignore[arg-type]
    for name, arguments in {
        "Add": {}, "Average": {}, "Concatenate": {}, "Dot": {"axes": 2}, "Maximum": {}, "Minimum": {}, "Multiply": {},
        "Subtract": {}, "Attention": {"use_scale": True}, "AdditiveAttention": {},
    }.items()
}  # fmt: skip
"""Layers that are called with a list of two sequences."""

TWO: dict[str, Callable[[str], Any]] = {
    "MultiHeadAttention": _make("MultiHeadAttention", 2, 3),
    "GroupedQueryAttention": _make("GroupedQueryAttention", 3, 2, 1),
}
"""Layers that are called with a query and a value."""

OUTSIDE = {
    "FlaxLayer": "needs Flax in place of TensorFlow",
    "JaxLayer": "needs JAX in place of TensorFlow",
    "TorchModuleWrapper": "needs PyTorch in place of TensorFlow",
    "TFSMLayer": "a saved model that is called, not trained",
    "Layer": "what all layers are derived from",
    "Wrapper": "what wrapping layers are derived from",
    "InputLayer": "in every model here",
    "GRUCell": "in `RNN`",
    "LSTMCell": "in `RNN`",
    "SimpleRNNCell": "in `SimpleRNN`",
    "StackedRNNCells": "in `RNN`",
    "MaxNumBoundingBoxes": "changes the boxes of pictures, which no model here has",
    "CutMix": "changes pictures together with their labels, in a data set",
    "MixUp": "changes pictures together with their labels, in a data set",
    "HashedCrossing": "below, as it takes two features",
}


def _film1(x: Any) -> Any:
    return _layers().Reshape((3, 8, 8))(x)


def _film3(x: Any) -> Any:
    return _layers().Reshape((3, 4, 4, 4, 1))(x)


def _wave(x: Any) -> Any:
    return _layers().Reshape((64, 1))(x)


DERIVED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "film1": ("film", _film1),
    "film3": ("film", _film3),
    "wave": ("sound", _wave),
}


WITHOUT_GRADIENT = {"Masking", "Discretization", "Normalization"} | set(list(ONE)[list(ONE).index("AugMix") :])
"""Layers that pass no gradient on to the layers before them."""


def branch(row: str, inputs: Mapping[str, Any]) -> Any:
    """Return the output of a row: a trained layer, the layer of the row, and another trained layer."""
    import keras

    layers, name = keras.layers, slug(row)

    def before(tensor: Any, which: str = "in") -> Any:
        return layers.Dense(int(tensor.shape[-1]), name=f"{name}__{which}")(tensor)

    if row in ONE:
        kind, make = ONE[row]
        source, derive = DERIVED.get(kind, (kind, None))
        x = inputs[source]
        if derive is not None:
            x = derive(x)
        elif INPUTS[source][1] == "float32" and row not in WITHOUT_GRADIENT:
            x = before(x)
        y = make(f"{name}__layer")(x)
    elif row == "HashedCrossing":
        y = layers.HashedCrossing(7, name=f"{name}__layer")((inputs["words"], inputs["sentences"]))
    else:
        x, other = before(inputs["sequence"]), before(inputs["sequence"], "also")
        y = SEVERAL[row](f"{name}__layer")([x, other]) if row in SEVERAL else TWO[row](f"{name}__layer")(x, other)
    if keras.backend.is_int_dtype(y.dtype):
        y = keras.ops.cast(y, "float32") / 4.0
    if row == "MelSpectrogram":
        y = y * 0.05  # the output is in decibels
    if row == "RandomCrop":
        y = layers.GlobalAveragePooling2D(name=f"{name}__mean")(y)  # cropping takes place only in training
    if row == "Masking":
        y = layers.GRU(2, name=f"{name}__gru")(y)
    if len(y.shape) > 2:
        y = layers.Flatten(name=f"{name}__flat")(y)
    return layers.Dense(1, name=f"{name}__out")(y / float(y.shape[-1]) ** 0.5)


def kind(row: str) -> str:
    """Return the name of the input that a row takes."""
    wanted = ONE[row][0] if row in ONE else "sentences" if row == "HashedCrossing" else "sequence"
    return DERIVED[wanted][0] if wanted in DERIVED else wanted


def _needs(rows: Sequence[str]) -> list[str]:
    return sorted({kind(row) for row in rows} | ({"words"} if "HashedCrossing" in rows else set()))


def model(rows: Sequence[str]) -> Any:
    """Return a model with a branch for each row. The output of each branch is a column of the model's single output.

    A separate loss for each row would make tracing take a fifth longer. The mean over the columns divides a row's
    gradient by the number of rows, so the learning rate is multiplied by it.
    """
    import keras

    inputs = {}
    for name in _needs(rows):
        values, dtype = INPUTS[name]
        inputs[name] = keras.Input(values().shape[1:], dtype=dtype, name=name)
    columns = []
    for row in rows:
        keras.utils.set_random_seed(7)
        columns.append(branch(row, inputs))
    made = keras.Model(inputs, keras.ops.concatenate(columns, axis=1) if len(rows) > 1 else columns[0])
    made.compile(keras.optimizers.SGD(0.02 * len(rows), momentum=0.8), "mse")
    return made


def fit(rows: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of ``keras.Model.fit``. All batches have the same size, because everything would be traced
    again for another size.
    """
    whole = len(data.target()) // data.FIT["batch_size"] * data.FIT["batch_size"]
    x = {name: INPUTS[name][0]()[:whole] for name in _needs(rows)}
    return {"x": x, "y": np.repeat(data.target()[:whole].reshape(-1, 1), len(rows), axis=1), **data.FIT}


def every() -> list[str]:
    """Return the names of all rows, sorted."""
    return sorted([*ONE, *SEVERAL, *TWO, "HashedCrossing"])


GROUP = 12


def trials(rows: Sequence[str] | None = None) -> list[Trial]:
    """Return trials in which rows with the same input are trained together."""
    by_input: dict[str, list[str]] = {}
    for row in rows or every():
        by_input.setdefault(kind(row), []).append(row)
    groups = [found[i : i + GROUP] for found in by_input.values() for i in range(0, len(found), GROUP)]
    return [Trial("layers", tuple(group), model, fit) for group in groups]
