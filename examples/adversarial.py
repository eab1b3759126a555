"""A training step of one's own in mixed precision: digits that withstand an attack: python examples/adversarial.py.

The step changes every picture by a little in the direction that makes the loss grow most (the fast gradient sign
method), and trains on the result. Layers compute in bfloat16, weights stay float32. `optimizer.apply` is where the
gradients of the tasks meet; the rest of the step need not know.
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
        """Pictures, each changed by STRENGTH at most so that the model errs more."""
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
