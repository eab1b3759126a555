"""Adversarial training: a custom training step in mixed precision trains a digit classifier that withstands an attack.

    python examples/adversarial.py

The step changes every picture slightly, in the direction that increases the loss most (the fast gradient sign method),
and trains on the changed pictures. Layers compute in bfloat16; weights stay in float32. The gradients are averaged over
the tasks inside `optimizer.apply`, so the rest of the step is the same as for one process.
"""

import jupyter_dtf as dtf

STRENGTH = 0.15

with dtf.cluster(jobs={"worker": 2}) as cluster:
    import keras
    import numpy as np
    import tensorflow as tf
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split((x / 16).astype("float32"), y, test_size=0.2, random_state=1)

    def attacked(model, x, y):
        """Return the pictures with each pixel changed by STRENGTH so that the loss increases."""
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = model.compute_loss(y=y, y_pred=model(x))
        return x + STRENGTH * tf.sign(tape.gradient(loss, x))

    class Hardened(keras.Sequential):
        def train_step(self, data):
            x, y = data
            x = attacked(self, x, y)
            with tf.GradientTape() as tape:
                predicted = self(x, training=True)
                loss = self.compute_loss(y=y, y_pred=predicted)
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            self._loss_tracker.update_state(loss)
            return self.compute_metrics(x, y, predicted)

    def trained(kind):
        keras.utils.set_random_seed(1)
        layers = [
            keras.Input((64,)),
            keras.layers.Dense(128, activation="relu", dtype="mixed_bfloat16"),
            keras.layers.Dense(10, activation="softmax", dtype="float32"),
        ]
        model = kind(layers, name=kind.__name__.lower())
        model.compile(keras.optimizers.Adam(0.005), "sparse_categorical_crossentropy", metrics=["accuracy"])
        cluster.fit(model, x, y, batch_size=64, epochs=10)
        return model

    for kind in (keras.Sequential, Hardened):
        model = trained(kind)
        hard = attacked(model, tf.constant(x_test), tf.constant(y_test))
        plain, under_attack = (np.mean(model.predict(each, verbose=0).argmax(1) == y_test) for each in (x_test, hard))
        print(f"{kind.__name__}: {plain:.1%} right, under attack {under_attack:.1%}")
