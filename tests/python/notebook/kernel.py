"""A real kernel in which tests run cells, with the outputs that a notebook would store."""

from __future__ import annotations

import copy
from typing import Any

from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from ..patience import left_s


class Notebook:
    """A kernel that runs cells one after another. A context manager, at the end of which the kernel is shut down."""

    def __init__(self) -> None:
        self._notebook = new_notebook()
        self._client = NotebookClient(self._notebook, timeout=int(left_s()), kernel_name="python3", allow_errors=True)

    def __enter__(self) -> Notebook:
        self._context = self._client.setup_kernel()
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def saved(self, *, state: bool = False) -> Any:
        """Return a copy of the notebook as it would be saved now. With ``state``, the copy includes the state of its
        widgets.
        """
        found = copy.deepcopy(self._notebook)
        if state:
            self._client.set_widgets_metadata()
            found.metadata.update(self._notebook.metadata)
            self._notebook.metadata.pop("widgets", None)
        return found

    def run(self, source: str) -> Any:
        """Run a cell, which must not fail. Return the cell with its outputs."""
        cell = self._run(source)
        failed = ["\n".join(output.traceback) for output in cell.outputs if output.output_type == "error"]
        assert not failed, f"The cell fails:\n{source}\n{failed[0]}"
        return cell

    def value(self, source: str) -> str:
        """Run a cell, and return its value as text."""
        (result,) = [output for output in self.run(source).outputs if output.output_type == "execute_result"]
        text: str = result.data["text/plain"]
        return text

    def printed(self, source: str, stream: str = "stdout") -> str:
        """Run a cell, which may fail, and return what it prints."""
        return "".join(o.text for o in self._run(source).outputs if o.output_type == "stream" and o.name == stream)

    def displayed(self, source: str) -> dict[str, Any]:
        """Run a cell with a single display output, and return the output's MIME bundle."""
        (output,) = [o for o in self.run(source).outputs if o.output_type == "display_data"]
        data: dict[str, Any] = output.data
        return data

    def error(self, source: str) -> str:
        """Run a cell that fails, and return its traceback."""
        (output,) = [output for output in self._run(source).outputs if output.output_type == "error"]
        return "\n".join(output.traceback)

    def _run(self, source: str) -> Any:
        cell = new_code_cell(source)
        self._notebook.cells.append(cell)
        return self._client.execute_cell(cell, len(self._notebook.cells) - 1)
