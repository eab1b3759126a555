"""A convolutional network recognizes handwritten digits that are shifted at random: python examples/convolutions.py.

Each of two workers computes the gradients of its half of every batch. The model is plain Keras.
"""

import jupyter_dtf as dtf

with dtf.cluster(jobs={"worker": 2}) as cluster:
    import keras
    import numpy as np
    from keras import layers
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    keras.utils.set_random_seed(1)
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32").reshape(-1, 8, 8, 1)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.2, random_state=1)

    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.RandomTranslation(0.1, 0.1, fill_mode="constant"),  # only during training
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ],
        name="convolutions",
    )
    model.compile(keras.optimizers.Adam(0.003), "sparse_categorical_crossentropy", metrics=["accuracy"])
    cluster.fit(model, x, y, batch_size=64, epochs=8, validation_data=(x_test, y_test))

    read = model.predict(x_test, verbose=0).argmax(axis=1)
    print(f"on digits that it has not seen: {np.mean(read == y_test):.1%} right")
    for digit, taken_for in zip(y_test[read != y_test], read[read != y_test], strict=True):
        print(f"a {digit} was read as a {taken_for}")
