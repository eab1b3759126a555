"""A transformer learns to write, letter by letter: python examples/language_model.py.

It is trained on scikit-learn's descriptions of its data sets. Its loss is compared with that of a model that only knows
how frequent each letter is. At the end, it writes a line of its own.
"""

import jupyter_dtf as dtf

LENGTH, WIDTH = 48, 64

with dtf.cluster(jobs={"worker": 2}) as cluster:
    from pathlib import Path

    import keras
    import numpy as np
    import sklearn
    from keras import layers, ops

    keras.utils.set_random_seed(1)
    library = Path(sklearn.__file__).parent / "datasets" / "descr"
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(library.glob("*.rst")))
    letters, codes = np.unique(list(text), return_inverse=True)

    # Pieces of the text, each with one more letter, so that every letter has a successor. The last tenth is held out.
    starts = np.arange(0, len(codes) - LENGTH - 1, 24)
    pieces = codes[starts[:, None] + np.arange(LENGTH + 1)]
    pieces, held_back = np.split(pieces, [len(pieces) * 9 // 10])

    class Positions(layers.Layer):
        """Adds a learned vector for each position in the piece."""

        def build(self, shape):
            self.table = self.add_weight(shape=shape[1:], initializer="uniform")

        def call(self, x):
            return x + self.table[: ops.shape(x)[1]]

    given = keras.Input((LENGTH,), dtype="int32")
    hidden = Positions()(layers.Embedding(len(letters), WIDTH)(given))
    for _ in range(2):
        seen = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.MultiHeadAttention(2, WIDTH // 2)(seen, seen, use_causal_mask=True)
        wide = layers.Dense(2 * WIDTH, activation="gelu")(layers.LayerNormalization()(hidden))
        hidden = hidden + layers.Dense(WIDTH)(wide)
    model = keras.Model(given, layers.Dense(len(letters))(layers.LayerNormalization()(hidden)), name="language_model")
    model.compile(keras.optimizers.Adam(0.003), keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    run = cluster.fit(
        model,
        pieces[:, :-1],
        pieces[:, 1:],
        batch_size=64,
        epochs=4,
        validation_data=(held_back[:, :-1], held_back[:, 1:]),
    )

    frequency = np.bincount(pieces.ravel(), minlength=len(letters)) + 1
    alone = -np.log(frequency / frequency.sum())[held_back[:, 1:]].mean()
    loss = run.history["val_loss"][-1]
    print(f"bits per letter: {loss / np.log(2):.2f}; by the frequency of letters alone: {alone / np.log(2):.2f}")

    line = list(codes[:LENGTH])
    random = np.random.default_rng(1)
    for _ in range(80):
        (scores,) = model.predict(np.array([line[-LENGTH:]]), verbose=0)[:, -1]
        line.append((2 * scores + random.gumbel(size=len(letters))).argmax())  # drawn, likely letters more often
    print("It writes:", repr("".join(letters[line[LENGTH:]])))
