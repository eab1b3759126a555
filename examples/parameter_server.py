"""Asynchronous parameter servers on handwritten digits, with one, two and three workers and the same number of epochs.

Every worker processes all digits, and every gradient is applied when it arrives, so more workers make more updates in
the same number of epochs. With a small learning rate, this shows in the accuracy on digits that the model has not seen.

    python examples/parameter_server.py

prints the accuracies and writes the plot to parameter_server.html.
"""

from pathlib import Path

from bokeh.embed import file_html
from bokeh.plotting import figure
from bokeh.resources import INLINE

import jupyter_dtf as dtf

EPOCHS, BATCH = 3, 32

with dtf.Cluster(jobs={"worker": 3, "ps": 1}) as cluster:  # returns immediately: the workers start meanwhile
    import keras
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x / 16.0, y, test_size=0.2, random_state=1)

    def digits(ctx):
        """Return all digits, in a different order for each worker."""
        import tensorflow as tf

        examples = tf.data.Dataset.from_tensor_slices((x.astype("float32"), y))
        return examples.shuffle(len(x), seed=ctx.rank).batch(BATCH)

    def network():
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.Input((64,)),
                keras.layers.Dense(128, activation="relu"),
                keras.layers.Dense(10, activation="softmax"),
            ]
        )
        model.compile(keras.optimizers.SGD(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        return model

    accuracy, staleness = {}, {}
    for workers in (1, 2, 3):
        model = network()
        run = cluster.fit(
            model,
            digits,
            epochs=EPOCHS,
            strategy=dtf.ParameterServer(),
            jobs={"worker": workers, "ps": 1},
            threads_per_task=1,
        )
        _, accuracy[workers] = model.evaluate(x_test, y_test, verbose=0)
        points = run.metrics
        staleness[workers] = points[points["metric"] == "staleness"]["value"].mean()
        applied = sum(counts["applied"] for counts in run.updates.values())
        print(f"{workers} workers: {applied} updates, {staleness[workers]:.2f} stale on average, ", end="")
        print(f"accuracy {accuracy[workers]:.3f}")

plot = figure(
    title=f"Asynchronous training, {EPOCHS} epochs for each worker",
    x_axis_label="workers",
    y_axis_label="accuracy on unseen digits",
    x_range=(0.5, 3.5),
    y_range=(0, 1),
    width=480,
    height=320,
)
plot.xaxis.ticker = list(accuracy)
plot.vbar(x=list(accuracy), top=list(accuracy.values()), width=0.6, color="#0072b2")
Path("parameter_server.html").write_text(file_html(plot, INLINE, "Parameter servers"), encoding="utf-8")
