"""The server extension and its settings (``c.JupyterDTF.…`` in ``jupyter_server_config.py``)."""

from __future__ import annotations

import os

from jupyter_server.extension.application import ExtensionApp
from traitlets import Dict, Float, Int, List, Unicode

from .. import gpu_growth
from .base import SETTING
from .routes import patterns
from .services import Services


class JupyterDTF(ExtensionApp):
    """Distributed TensorFlow from JupyterLab."""

    name = "jupyter_dtf"
    load_other_extensions = True

    allowed_kinds = List(
        Unicode(),
        default_value=None,
        allow_none=True,
        help="The kinds of cluster that can be started, such as ['local']. None: all installed kinds.",
    ).tag(config=True)
    kind_defaults = Dict(
        value_trait=Dict(),
        key_trait=Unicode(),
        help="Default values for the options of kinds of cluster, such as {'local': {'threads_per_host': 2}}.",
    ).tag(config=True)
    data_dir = Unicode(
        help="The directory for the store of runs, run directories and templates, for this server and all processes "
        "that it starts. Empty: JUPYTER_DTF_DATA_DIR, or jupyter_dtf in Jupyter's data directory.",
    ).tag(config=True)
    keep_runs = Int(
        0, min=0, help="Delete the oldest ended runs beyond this number, when the panel is first used. 0: keep all."
    ).tag(config=True)
    keep_days = Float(
        0.0,
        min=0.0,
        help="Delete ended runs that started more than this many days ago, when the panel is first used. 0: keep all.",
    ).tag(config=True)

    def initialize_settings(self) -> None:
        gpu_growth.undo()  # kernels that this server starts must not inherit the variable
        if self.data_dir:
            # Cluster processes and kernels inherit the variable.
            os.environ["JUPYTER_DTF_DATA_DIR"] = os.path.abspath(self.data_dir)
        self.settings[SETTING] = Services(
            allowed_kinds=self.allowed_kinds,
            kind_defaults=self.kind_defaults,
            keep_runs=self.keep_runs,
            keep_days=self.keep_days,
        )

    def initialize_handlers(self) -> None:
        self.handlers.extend(patterns())

    async def stop_extension(self) -> None:
        await self.settings[SETTING].stop()
