"""Population-based training: learning rates that change while the models train: python examples/population.py.

Four networks are trained, one epoch at a time. After each epoch, the worst network continues from the weights of the
best one, with a similar learning rate. This requires Optuna: pip install "jupyter_dtf[search]".
"""

import jupyter_dtf as dtf


def one_epoch(params, ctx):
    """Train for one epoch from the checkpoint of this member, or of the one that it copies. Return the metrics."""
    import keras
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    layers = [keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential(layers)
    optimizer = keras.optimizers.SGD(params["rate"], momentum=params["momentum"])
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    epoch, weights = ctx.restore() or (0, model.get_weights())
    model.set_weights(weights)
    history = model.fit(x / 16, y, batch_size=32, epochs=1, validation_split=0.2, verbose=0).history
    ctx.checkpoint(epoch + 1, model.get_weights())
    return {"val_loss": history["val_loss"][-1], "val_accuracy": history["val_accuracy"][-1]}


if __name__ == "__main__":
    with dtf.cluster(jobs={"worker": 2}) as cluster:
        search = cluster.search(
            one_epoch,
            {"rate": (1e-3, 0.3, "log"), "momentum": (0.0, 0.9)},
            trials=16,
            objective="val_loss",
            sampler=dtf.PopulationBased(population=4, quantile=0.25),
            seed=1,
        )
        table = search.trials[["member", "generation", "parent", "rate", "momentum", "val_loss"]]
        print(table.sort_values(["member", "generation"]).round(3).to_string(index=False))
        first = table[table["generation"] == table["generation"].min()]["val_loss"]
        print(f"best of the first epoch: {first.min():.3f}; best of all: {search.best.value:.3f}")
