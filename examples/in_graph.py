"""In-graph replicas, as in TensorFlow's old multi-GPU example: python examples/in_graph.py.

One program computes on several devices: on the GPUs if there are any, otherwise on the CPU of each of two tasks.
"""

import jupyter_dtf as dtf

with dtf.Cluster(jobs={"worker": 2}) as cluster:
    import keras
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split((x / 16.0).astype("float32"), y, test_size=0.2, random_state=1)

    def make_model():
        keras.utils.set_random_seed(1)
        layers = [keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, "softmax")]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
        return model

    model, alone = make_model(), make_model()
    cluster.fit(model, x, y, batch_size=64, epochs=5, shuffle=False, strategy=dtf.InGraph())
    alone.fit(x, y, batch_size=64, epochs=5, shuffle=False, verbose=0)

    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    apart = max(np.abs(a - b).max() for a, b in zip(model.get_weights(), alone.get_weights(), strict=True))
    print(f"on digits that it has not seen: {accuracy:.1%} right")
    print(f"weights of two replicas and of one process: at most {apart:.1e} apart")
