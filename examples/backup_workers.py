"""Backup workers: one of three workers is slow, and the others do not wait for it: python examples/backup_workers.py.

Each step uses the first two gradients that arrive; the third arrives too late and is dropped. Without a backup worker,
each step waits for all three gradients.
"""

import jupyter_dtf as dtf

JOBS = {"worker": 3, "ps": 1}

with dtf.cluster(jobs=JOBS) as cluster:
    import time

    import keras
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split((x / 16).astype("float32"), y, test_size=0.2, random_state=1)

    class SlowMachine(keras.callbacks.Callback):
        """Slows the last worker down by 30 ms per step."""

        run_on_all_tasks = True

        def on_train_batch_end(self, batch, logs=None):
            if dtf.rank() == 2:
                time.sleep(0.03)

    for backup_workers in (0, 1):
        keras.utils.set_random_seed(1)
        layers = [keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, "softmax")]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.Adam(0.005), "sparse_categorical_crossentropy", metrics=["accuracy"])
        run = cluster.fit(
            model,
            x,
            y,
            batch_size=96,
            epochs=5,
            callbacks=[SlowMachine()],
            strategy=dtf.ParameterServer(sync=True, backup_workers=backup_workers),
            jobs=JOBS,
            threads_per_task=1,
            name=f"{backup_workers} backup workers",
        )
        accuracy = model.evaluate(x_test, y_test, verbose=0)[1]
        counts = run.updates.values()
        step = run.metrics.query("metric == 'step_seconds' and task == 'worker:0'")["value"].median()
        print(f"{backup_workers} backup workers: {1000 * step:.0f} ms a step, accuracy {accuracy:.3f}, ", end="")
        print("applied:", [count["applied"] for count in counts], "dropped:", [count["dropped"] for count in counts])
