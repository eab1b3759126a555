"""A Keras model trained by two TensorFlow processes, on handwritten digits: python examples/digits.py."""

import jupyter_dtf as dtf

with dtf.Cluster(jobs={"worker": 2}) as cluster:  # returns immediately: the workers start while Keras is imported
    import keras
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    keras.utils.set_random_seed(1)
    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x / 16.0, y, test_size=0.2, random_state=1)

    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])

    run = cluster.fit(model, x, y, batch_size=64, epochs=10, validation_data=(x_test, y_test))

    print("validation accuracy by epoch:", [f"{value:.3f}" for value in run.history["val_accuracy"]])
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print(f"on digits that it has not seen: {accuracy:.1%} right")
