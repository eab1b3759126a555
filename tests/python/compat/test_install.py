"""Tests of Horovod's module names: what they refer to, and what importing them loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ..patience import left_s


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=left_s(), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_surface_imports_no_tensorflow() -> None:
    run(
        "import sys\n"
        "import jupyter_dtf.compat.horovod as hvd\n"
        "hvd.install_as_horovod()\n"
        "import horovod, horovod.common\n"
        "assert not {'tensorflow', 'keras', 'distributed'} & set(sys.modules)\n"
    )


def test_horovods_names_lead_here() -> None:
    printed = run(
        "import jupyter_dtf.compat.horovod as here\n"
        "assert here.install_as_horovod() and here.install_as_horovod()\n"
        "import horovod.tensorflow.keras as hvd\n"
        "import horovod.tensorflow, horovod.keras\n"
        "from horovod.common.exceptions import HorovodInternalError\n"
        "from horovod.tensorflow.keras.callbacks import MetricAverageCallback\n"
        "from horovod.tensorflow.elastic import TensorFlowKerasState\n"
        "assert horovod.tensorflow is here.tensorflow\n"
        "assert horovod.keras is here.keras\n"
        "assert hvd is here.tensorflow.keras\n"
        "assert here.elastic.HorovodInternalError is HorovodInternalError\n"
        "assert hvd.callbacks.MetricAverageCallback is MetricAverageCallback\n"
        "assert hvd.elastic.TensorFlowKerasState is TensorFlowKerasState\n"
        "assert here.DistributedGradientTape is horovod.tensorflow.DistributedGradientTape\n"
        "try:\n"
        "    import horovod.torch\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    assert printed == "jupyter_dtf replaces only Horovod's TensorFlow and Keras modules. It has no horovod.torch\n"


def test_an_installed_horovod_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "horovod.py").write_text("mine = True\n")
    begin = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from jupyter_dtf.compat.horovod import install_as_horovod\n"
    )
    run(begin + "assert not install_as_horovod()\nimport horovod\nassert horovod.mine\n")
    (tmp_path / "horovod.py").unlink()
    (tmp_path / "horovod").mkdir()  # for example, of programs
    run(begin + "assert install_as_horovod()\nimport horovod.common.exceptions\n")


def test_outside_of_a_run_there_is_one_task() -> None:
    run(
        "import jupyter_dtf.compat.horovod as hvd\n"
        "assert not hvd.is_initialized()\n"
        "try:\n"
        "    hvd.rank()\n"
        "except ValueError as error:\n"
        "    assert 'hvd.init()' in str(error)\n"
        "hvd.init()\n"
        "assert hvd.is_initialized() and hvd.is_homogeneous()\n"
        "assert [hvd.rank(), hvd.local_rank(), hvd.cross_rank()] == [0, 0, 0]\n"
        "assert [hvd.size(), hvd.local_size(), hvd.cross_size()] == [1, 1, 1]\n"
        "assert hvd.allreduce([1.0, 2.0], op=hvd.Sum).numpy().tolist() == [1.0, 2.0]\n"
        "assert hvd.broadcast_object('x') == 'x'\n"
    )


def test_every_name_of_horovods_leads_somewhere() -> None:
    run(
        "import importlib\n"
        "from jupyter_dtf.compat.horovod import install, install_as_horovod\n"
        "assert install_as_horovod()\n"
        "for name in install._HOMES:\n"
        "    importlib.import_module(name)\n"
        "from horovod.tensorflow.compression import Compression\n"
        "assert Compression.fp16\n"
    )
