"""A search for good hyperparameters on handwritten digits, with two trials at a time: python examples/search.py.

This requires Optuna: pip install "jupyter_dtf[search]".
"""

import jupyter_dtf as dtf

DEFAULT = {"units": 32, "rate": 0.001, "dropout": 0.0, "batch": 32}
SPACE = {"units": (16, 128, "log"), "rate": (1e-4, 3e-2, "log"), "dropout": (0.0, 0.5), "batch": [16, 32, 64]}


def train(params, ctx):
    """Return the validation loss, and the accuracy on digits that neither the training nor the search uses."""
    import keras
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split((x / 16.0).astype("float32"), y, test_size=0.3, random_state=1)
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(params["units"], activation="relu"),
            keras.layers.Dropout(params["dropout"]),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    optimizer = keras.optimizers.Adam(params["rate"])
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, batch_size=params["batch"], epochs=6, validation_split=0.25, verbose=0).history
    return {"val_loss": history["val_loss"][-1], "test": model.evaluate(x_test, y_test, verbose=0)[1]}


with dtf.Cluster(jobs={"worker": 2}) as cluster:
    (default,) = cluster.run(train, DEFAULT, jobs={"worker": 1}).result()  # the same function, outside of a search
    search = cluster.search(train, SPACE, trials=20, objective="val_loss", pruner="median", seed=1)

    search.show()
    best = search.best
    print("states:", search.trials["state"].value_counts().to_dict())
    print(f"default: validation loss {default['val_loss']:.3f}, {default['test']:.1%} of unseen digits right")
    found = cluster.run(train, best.params, jobs={"worker": 1}).result()[0]
    print(f"best:    validation loss {best.value:.3f}, {found['test']:.1%} of unseen digits right, with {best.params}")
