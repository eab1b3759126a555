"""An ensemble: every task trains its own network, and then all networks predict together, each on its task's device.

Run it with ``python examples/ensemble.py``.
"""

import jupyter_dtf as dtf


def data():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    return train_test_split((x / 16.0).astype("float32"), y, test_size=0.5, random_state=1)


def make_model():
    import keras

    layers = [keras.Input((64,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential(layers)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def train_one(epochs, ctx):
    """Train on examples drawn with replacement, different ones in every task, and return the weights."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(ctx.rank)
    x, _, y, _ = data()
    drawn = np.random.default_rng(ctx.rank).integers(0, len(x), len(x))
    model = make_model()
    for epoch in range(epochs):
        history = model.fit(x[drawn], y[drawn], batch_size=32, verbose=0).history
        ctx.report(epoch, **{name: values[0] for name, values in history.items()})
    return model.get_weights()


with dtf.Cluster(jobs={"worker": 3}) as cluster:
    models = []
    for weights in cluster.run(train_one, 12).result():
        model = make_model()
        model.set_weights(weights)
        models.append(model)

    with cluster.servers() as servers:
        together = dtf.ensemble(models, servers.connect())
        together.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        _, x_test, _, y_test = data()
        for model, device in zip(models, together.devices, strict=True):
            print(f"alone, on {device}: {model.evaluate(x_test, y_test, verbose=0)[1]:.1%} right")
        print(f"together: {together.evaluate(x_test, y_test, verbose=0)[1]:.1%} right")
