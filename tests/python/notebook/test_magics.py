"""Tests of the magics in a real kernel, on a real cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from jupyter_dtf.notebook.display import CLUSTER_MIME, RUN_MIME

from .kernel import Notebook

pytestmark = pytest.mark.module_directories


@pytest.fixture(scope="module")
def notebook(no_process_left_by_module: None) -> Iterator[Notebook]:
    """Start a kernel with the magics, and a cluster of two workers that it uses."""
    with Notebook() as notebook:
        notebook.run("%load_ext jupyter_dtf")
        notebook.run("%dtf start digits --jobs worker=2")
        yield notebook
        notebook.run("%dtf stop")


class TestLine:
    def test_the_cluster_in_use_is_a_variable(self, notebook: Notebook) -> None:
        assert notebook.value("cluster.name") == "'digits'"

    def test_use(self, notebook: Notebook) -> None:
        notebook.run("del cluster\n%dtf scale worker=2")
        (card,) = notebook.run("%dtf use digits").outputs
        assert card.data[CLUSTER_MIME] == {"name": "digits"}
        assert notebook.value("cluster.name") == "'digits'"

    def test_clusters(self, notebook: Notebook) -> None:
        head, line = notebook.printed("%dtf clusters").splitlines()
        assert head.startswith("NAME")
        assert line.startswith("digits")

    def test_scale(self, notebook: Notebook) -> None:
        notebook.run("%dtf scale digits worker=3")
        assert notebook.value("cluster.jobs") == "{'worker': 3}"
        notebook.run("%dtf scale worker=2")
        assert notebook.value("cluster.jobs") == "{'worker': 2}"

    def test_start_and_stop_another(self, notebook: Notebook) -> None:
        notebook.run("%dtf start other --jobs worker=1 --option threads_per_host=1")
        assert notebook.value(
            "cluster.name, cluster.wait_ready().info.hosts[0].threads if cluster.info.hosts else 1"
        ) == ("('other', 1)")
        assert notebook.printed("%dtf stop other") == "The cluster other has ended.\n"
        assert notebook.value("cluster.status") == "'stopped'"
        notebook.run("%dtf use digits")

    def test_runs_logs_and_show(self, notebook: Notebook) -> None:
        notebook.run("%%dtf run --name talk\nprint('I am', ctx.task)\nctx.report(loss=1.0)")
        assert "talk  succeeded  digits   2 workers" in notebook.printed("%dtf runs -n 1")
        assert notebook.printed("%dtf logs talk worker:1") == "I am worker:1\n"
        assert sorted(notebook.printed("%dtf logs talk").splitlines()) == [
            "worker:0 | I am worker:0",
            "worker:1 | I am worker:1",
        ]
        shown = notebook.displayed("%dtf show talk")
        assert set(shown[RUN_MIME]) == {"run"}
        assert "loss" in shown["image/svg+xml"]

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("%dtf bogus", "invalid choice: 'bogus'"),
            ("%dtf use nope", "There is no cluster named 'nope'"),
            ("%dtf start digits", "exists"),
            ("%dtf start --jobs worker", "JOB=N"),
            ("%dtf start --option hosts=0", "at least 1, got 0"),
            ("%dtf start --kind nope", "got 'nope'"),
            ("%dtf logs nope", "which matches none"),
            ("%dtf stop 'nope", "No closing quotation"),
            ("%%dtf bogus\n1", "invalid choice: 'bogus'"),
            ("%%dtf run --job ps\n1", "--job must be one of worker, the jobs of digits, got 'ps'"),
            ("%%dtf run --out 1a\n1", "--out must be the name of a variable, got '1a'"),
            ("%%dtf run --task 2\n1", "--task must be from 0 to 1 for the job worker, got 2"),
        ],
    )
    def test_a_mistake_is_one_line(self, notebook: Notebook, line: str, said: str) -> None:
        text = notebook.printed(line, "stderr")
        assert text.startswith("UsageError: ")
        assert said in text
        assert text.count("\n") == 1

    def test_a_column_that_no_run_has_is_a_mistake(self, notebook: Notebook) -> None:
        notebook.run("%%dtf run --cluster digits\nprint(ctx.rank)")
        text = notebook.printed("%dtf runs --filter 'nope = 1'", "stderr")
        assert text.startswith("UsageError: ")
        assert "got 'nope'" in text

    @pytest.mark.parametrize("line", ["%dtf", "%dtf --help", "%dtf start --help", "%%dtf run --help\n1"])
    def test_help(self, notebook: Notebook, line: str) -> None:
        assert notebook.printed(line).startswith("usage: ")

    @pytest.mark.parametrize(
        ("line", "word"),
        [
            ("%dtf st", "start"),
            ("%dtf use di", "digits"),
            ("%dtf logs 20", "20"),
            ("%dtf compare 2026 20", "20"),
            ("%dtf runs --fi", "--filter"),
            ("%dtf start --kind lo", "local"),
            ("%%dtf run --no", "--no-stream"),
            ("%%dtf run --job wo", "worker"),
        ],
    )
    def test_completion(self, notebook: Notebook, line: str, word: str) -> None:
        notebook.run("%%dtf run\n1")
        matches = json.loads(
            notebook.printed(
                "import json\nfrom IPython import get_ipython\n"
                f"print(json.dumps(get_ipython().complete({line.rsplit(' ', maxsplit=1)[-1]!r}, {line!r})[1]))"
            )
        )
        assert any(match.startswith(word) for match in matches)


class TestCell:
    def test_every_task_under_its_name_and_the_values(self, notebook: Notebook) -> None:
        notebook.run("k = 3\ndef triple(x):\n    return k * x")
        cell = notebook.run("%%dtf run\nprint('hello from', ctx.task)\ntriple(ctx.rank + 1)")
        display, result = cell.outputs
        assert display.data["text/plain"] == "worker:0\n  hello from worker:0\nworker:1\n  hello from worker:1"
        assert result.data["text/plain"] == "[3, 6]"

    def test_the_value_as_a_variable_and_output_at_the_end(self, notebook: Notebook) -> None:
        cell = notebook.run("%%dtf run --out squares --no-stream\nprint('on', ctx.task)\n(ctx.rank + 1) ** 2")
        (display,) = cell.outputs
        assert display.data["text/plain"] == "worker:0\n  on worker:0\nworker:1\n  on worker:1"
        assert notebook.value("squares, squares['worker:1']") == "([1, 4], 4)"
        assert notebook.value("import jupyter_dtf as dtf\ndtf.runs()[0].code[0].text") == repr(
            "print('on', ctx.task)\n(ctx.rank + 1) ** 2\n"
        )

    def test_runs_are_compared(self, notebook: Notebook) -> None:
        for rate in (1, 2):
            notebook.run(f"cluster.run(lambda args, ctx: None, {{'rate': {rate}}}, name='rate {rate}')")
        lines = [line.split() for line in notebook.printed("%dtf compare 'rate 1' 'rate 2'").splitlines()]
        assert ["*", "parameters.rate", "1", "2"] in lines
        assert notebook.printed("%dtf runs --filter 'rate > 1' --columns rate") == "RATE\n2\n"

    def test_one_task(self, notebook: Notebook) -> None:
        assert notebook.value("%%dtf run --job worker --task 1\nctx.task, ctx.size") == "('worker:1', 2)"

    def test_no_value(self, notebook: Notebook) -> None:
        assert notebook.run("%%dtf run\nx = 1").outputs == []

    def test_tensorflow_is_there(self, notebook: Notebook) -> None:
        value = notebook.value("%%dtf run --task 0\nimport tensorflow as tf\nfloat(tf.reduce_sum(tf.ones(3)))")
        assert value == "3.0"

    def test_a_failing_task_raises_with_its_own_traceback(self, notebook: Notebook) -> None:
        text = notebook.error("%%dtf run\nx = 1\nif ctx.rank == 1:\n    x / 0")
        assert "worker:1 failed: ZeroDivisionError" in text
        assert "line 3, in <module>\n    x / 0" in text
        assert "jupyter_dtf/" not in text  # no frames of the package, neither here nor in the task

    def test_output_comes_while_the_cell_runs(self, notebook: Notebook) -> None:
        """The second task waits for a file that is created only when the first one's output is shown."""
        cell = notebook.run(
            "import pathlib, tempfile, threading\n"
            "from jupyter_dtf.notebook import output_blocks\n"
            "sign = pathlib.Path(tempfile.mkdtemp()) / 'seen'\n"
            "class Watched(output_blocks.Blocks):\n"
            "    def show(self, events):\n"
            "        super().show(events)\n"
            "        if 'first' in self.text():\n"
            "            sign.touch()\n"
            "output_blocks.Blocks = Watched"
        )
        assert cell.outputs == []
        cell = notebook.run(
            "%%dtf run\nimport time\nif ctx.rank == 0:\n    print('first')\nelse:\n"
            "    until = time.monotonic() + 20\n"
            "    while not sign.exists():\n        assert time.monotonic() < until\n        time.sleep(0.02)\n"
            "    print('second')"
        )
        assert cell.outputs[0].data["text/plain"] == "worker:0\n  first\nworker:1\n  second"


MODEL = """
import keras, numpy as np, threading
from sklearn.datasets import load_digits
x, y = load_digits(return_X_y=True)
x, y = x[:240] / 16, y[:240]
def made():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(12, "relu"), keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model
def train(model, **more):
    return model.fit(x, y, 60, epochs=2, shuffle=False, validation_split=0.25, verbose=0, **more)
def same(a, b):
    return all(np.allclose(p, q, rtol=1e-4, atol=1e-6) for p, q in zip(a.get_weights(), b.get_weights()))
ours, alone, beside = made(), made(), made()
alone_history = train(alone)
"""


@pytest.fixture(scope="module")
def fitted(notebook: Notebook) -> Notebook:
    notebook.run(MODEL)
    notebook.run(
        "%%dtf fit --name fitted --no-checkpoint\n"
        "history = train(ours)\n"
        "other = threading.Thread(target=train, args=[beside])\n"
        "other.start()\n"
        "other.join()\n"
        "history;"
    )
    return notebook


class TestFit:
    def test_the_model_and_its_history_are_those_of_keras(self, fitted: Notebook) -> None:
        assert fitted.value("same(ours, alone), type(history).__module__.split('.')[0], history is ours.history") == (
            "(True, 'keras', True)"
        )
        assert fitted.value("history.epoch, sorted(history.history) == sorted(alone_history.history)") == (
            "([0, 1], True)"
        )
        close = "np.allclose(history.history['val_loss'], alone_history.history['val_loss'], 1e-4)"
        assert fitted.value(close) == "True"
        assert "fitted  succeeded  digits   2 workers" in fitted.printed("%dtf runs -n 1")

    def test_what_is_beside_it_and_after_it_trains_here(self, fitted: Notebook) -> None:
        count = "import jupyter_dtf as dtf\nlen(dtf.runs())"
        before = fitted.value(count)
        fitted.run("train(made())")
        assert fitted.value(count) == before
        assert fitted.value("same(beside, alone)") == "True"

    def test_a_fit_of_ones_own_and_the_value_of_the_cell(self, fitted: Notebook) -> None:
        fitted.run(
            "class Own(keras.Sequential):\n"
            "    def fit(self, *args, **kwargs):\n"
            "        kwargs['epochs'] = 1\n"
            "        return super().fit(*args, **kwargs)\n"
            "own = Own([keras.Input((64,)), keras.layers.Dense(10)])\n"
            "own.compile('sgd', keras.losses.SparseCategoricalCrossentropy(from_logits=True))"
        )
        assert fitted.value("%%dtf fit --strategy ps --jobs worker=1,ps=1\n1").endswith("1")
        cell = "%%dtf fit --jobs worker=1 --no-checkpoint\nlen(own.fit(x, y, epochs=7, verbose=0).history['loss'])"
        assert fitted.value(cell) == "1"

    def test_what_goes_wrong_is_shown_where_it_did(self, fitted: Notebook) -> None:
        text = fitted.error("%%dtf fit\nbefore = 1\nours.fit(x, y[:7])")
        assert "ours.fit(x, y[:7])" in text and "InvalidInput" in text
        assert fitted.value("before") == "1"
        assert "No model.fit was called in this cell" in fitted.printed("%%dtf fit\nkept = 2", "stderr")
        assert "nonsense" in fitted.error("%%dtf fit --strategy nonsense\nours.fit(x, y)")
        assert fitted.value("keras.Model.fit.__qualname__") == "'TensorFlowTrainer.fit'"
