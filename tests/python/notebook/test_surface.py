"""Every public function and method has a docstring, and a signature with named and annotated parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.fit_run import FitRun
from jupyter_dtf.client.run_trace import Trace
from jupyter_dtf.client.servers import Servers

OPEN = {"Cluster": "options", "cluster": "options", "report": "metrics", "Cluster.upload": "modules"}
OPEN |= {"RunWidget": "options", "ClusterWidget": "options"}
OPEN |= {"predict": "options", "plan": "settings", "Run.forecast": "settings", "FitRun.forecast": "settings"}
OPEN |= {f"{kind}.{name}": "tags" for kind in ("Run", "FitRun") for name in ("tag", "untag")}
"""What takes any number of arguments, or arguments of any name (such as a kind's options or a user's metrics), and the
parameter for them, which the docstring has to mention.
"""


def surface() -> Iterator[tuple[str, Any]]:
    for name in dtf.__all__:
        value = getattr(dtf, name)
        is_error = inspect.isclass(value) and issubclass(value, BaseException)
        if callable(value) and not is_error and value is not dtf.Context:  # a protocol is not called
            yield name, value
    for kind in (dtf.Cluster, dtf.Run, FitRun, Servers, Trace):
        for name in dir(kind):
            value = inspect.getattr_static(kind, name)
            if not name.startswith("_") and (callable(value) or isinstance(value, (property, classmethod))):
                yield f"{kind.__name__}.{name}", value


@pytest.mark.parametrize(("name", "value"), [pytest.param(*each, id=each[0]) for each in surface()])
def test_it_has_a_signature_and_a_docstring(name: str, value: Any) -> None:
    function: Any = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    assert inspect.getdoc(function)
    parameters = inspect.signature(function).parameters.values()
    unnamed = [each.name for each in parameters if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    assert unnamed == ([OPEN[name]] if name in OPEN else [])
    if name in OPEN:
        assert "keyword argument" in str(inspect.getdoc(function)) or OPEN[name] in str(inspect.getdoc(function))
    assert all(each.annotation is not each.empty for each in parameters if each.name not in ("self", "cls"))
