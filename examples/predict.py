"""A trained model predicts on all tasks of a cluster: immediately for arrays, lazily for Dask collections.

Run it with ``python examples/predict.py``.
"""

import jupyter_dtf as dtf

with dtf.cluster(jobs={"worker": 2}) as cluster:
    import dask.array
    import keras
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    keras.utils.set_random_seed(1)
    x, y = load_breast_cancer(return_X_y=True)
    x = ((x - x.mean(axis=0)) / x.std(axis=0)).astype("float32")
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=1)

    layers = [keras.Input((30,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, "sigmoid")]
    model = keras.Sequential(layers, name="tumours")
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy", "auc"])
    cluster.fit(model, x, y, batch_size=64, epochs=8)

    # The same results as Keras's own predict and evaluate; each task computes its share.
    answers = cluster.predict(model, x_test)
    print("at most apart from one process:", np.abs(answers - model.predict(x_test, verbose=0)).max())
    print({name: round(value, 3) for name, value in cluster.evaluate(model, x_test, y_test, return_dict=True).items()})

    # For a Dask array, nothing is computed yet. The cluster's own Dask workers compute the predictions chunk by chunk.
    patients = dask.array.from_array(x_test, chunks=(50, 30))
    malignant = (cluster.predict(model, patients) < 0.5).sum()
    with cluster.client.as_current():
        print(f"{malignant.compute()} of {len(patients)} tumours are held to be malignant, {np.sum(y_test == 0)} are")
