"""Pickles callbacks and their attributes. Parts of the model and other callbacks are replaced with references.

A copy of the model, of its optimizer or of another callback would have no effect on training. A reference resolves to
the corresponding object of the process that unpickles it. Importing this module does not import Keras.
"""

from __future__ import annotations

import copy
import io
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import cloudpickle

from ....errors import InvalidInput
from ..model.parts import Reference, parts_of

_CALLBACK = "callback"


class Pickles:
    """Pickles values with references to the parts of a model and to ``callbacks``, which are keyed by their index in
    the job.

    ``model`` returns the model, or None if there is no model. The function is called only when the model is first
    needed.
    """

    def __init__(self, model: Callable[[], Any], callbacks: Mapping[int, Any] | None = None) -> None:
        self._get_model = model
        self._callbacks = callbacks or {}

    @cached_property
    def _model(self) -> Any:
        return self._get_model()

    @cached_property
    def _parts(self) -> dict[Reference, Any]:
        return {} if self._model is None else parts_of(self._model)

    @cached_property
    def _references(self) -> dict[int, Reference]:
        references: dict[int, Reference] = {id(each): (_CALLBACK, number) for number, each in self._callbacks.items()}
        for reference, part in self._parts.items():
            references.setdefault(id(part), reference)
        return references

    def dumps(self, value: Any, *, copies: bool = False) -> bytes:
        """Pickle a value. Raises any exception raised while its parts are pickled.

        ``copies``: whether other models that share variables with this model are copied; otherwise, InvalidInput is
        raised for them, because their copies would not be trained.
        """
        trained = set() if self._model is None or copies else {id(variable) for variable in self._model.variables}
        file = io.BytesIO()
        _Pickler(file, self._references, trained).dump(value)
        return file.getvalue()

    def holds(self, value: Any, sought: Any) -> bool:
        """Return whether a copy of ``sought`` would be made with a copy of the value, which must be picklable."""
        finder = _Finder(io.BytesIO(), self._references, set())
        finder.sought = sought
        finder.dump(value)
        return finder.found

    def loads(self, data: bytes, *, whole: bool = True) -> Any:
        """Unpickle a value. Raises InvalidInput if an object that the value refers to does not exist in this process.

        ``whole``: whether these objects must exist; otherwise, a missing object is replaced with None.
        """
        return _Unpickler(io.BytesIO(data), self._found if whole else self._known).load()

    def _found(self, reference: Reference) -> Any:
        part = self._known(reference)
        if part is None:
            raise InvalidInput(
                "`callbacks` must refer only to parts of the model that also exist in the task, got one that refers to "
                f"{' '.join(map(str, reference))}",
                field="callbacks",
            )
        return part

    def _known(self, reference: Reference) -> Any:
        return self._callbacks.get(reference[1]) if reference[0] == _CALLBACK else self._parts.get(reference)


class _Pickler(cloudpickle.Pickler):
    def __init__(self, file: io.BytesIO, references: Mapping[int, Reference], trained: set[int]) -> None:
        super().__init__(file, protocol=5)
        self._references = references
        self._trained = trained
        self._alive: list[Any] = []  # keeps references, so that ids are not reused

    def persistent_id(self, obj: Any) -> Reference | None:
        reference = self._references.get(id(obj))
        if reference is None and self._trained and isinstance(obj, sys.modules["keras"].Layer):
            shared = [variable.path for variable in obj.variables if id(variable) in self._trained]
            if shared:
                raise InvalidInput(
                    "`callbacks` must not hold a model or layer that shares weights with the model that is trained but "
                    "is not part of it, because a task would have a copy whose weights never change, got "
                    f"{obj.name!r} with {shared[0]}. Create it from self.model in on_train_begin, which runs in the "
                    "task",
                    field="callbacks",
                )
        return reference

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if hasattr(kind, "set_model") and hasattr(kind, "on_epoch_end") and not isinstance(obj, type):
            model = vars(obj).get("_model")
            if model is not None and id(model) not in self._references:
                obj = copy.copy(obj)
                obj._model = None  # a model from an earlier ``fit`` run
                self._alive.append(obj)
                return obj.__reduce_ex__(5)
        keras = sys.modules.get("keras")
        if keras is not None and isinstance(obj, keras.metrics.Metric):
            make, arguments = obj.__reduce__()[:2]  # Keras omits the values of the variables
            return _filled, (make, arguments, [variable.numpy() for variable in obj.variables])
        return super().reducer_override(obj)


def _filled(make: Callable[..., Any], arguments: tuple[Any, ...], values: list[Any]) -> Any:
    """Make a metric, and set its variables."""
    metric = make(*arguments)
    if [tuple(variable.shape) for variable in metric.variables] == [value.shape for value in values]:
        for variable, value in zip(metric.variables, values, strict=True):
            variable.assign(value)
    return metric


class _Finder(_Pickler):
    """Notes whether it has come across the object ``sought``, which it does not pickle."""

    sought: Any = None
    found = False

    def persistent_id(self, obj: Any) -> Reference | None:
        if obj is not self.sought:
            return super().persistent_id(obj)
        self.found = True
        return ("sought",)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, found: Callable[[Reference], Any]) -> None:
        super().__init__(file)
        self._found = found

    def persistent_load(self, pid: Any) -> Any:
        return self._found(pid)
