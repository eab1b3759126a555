"""A transformer as a pipeline of two tasks: which module is this from? python examples/transformer_pipeline.py.

It learns to tell which of five modules of Python's standard library a piece of source code comes from. The first block
of the transformer is on one task, the second on the other. Each batch is split into microbatches, so that both tasks
compute at the same time.
"""

import jupyter_dtf as dtf

MODULES = ["argparse", "tarfile", "turtle", "typing", "_pydecimal"]
LENGTH, WIDTH = 64, 32

with dtf.cluster(jobs={"worker": 2}) as cluster:
    import sysconfig
    from pathlib import Path

    import keras
    import numpy as np
    from keras import layers
    from sklearn.model_selection import train_test_split

    keras.utils.set_random_seed(1)
    library = Path(sysconfig.get_paths()["stdlib"])
    pieces, module = [], []
    for number, name in enumerate(MODULES):
        code = np.frombuffer((library / f"{name}.py").read_bytes(), np.uint8)[:25_000]
        pieces.append(code[: len(code) // LENGTH * LENGTH].reshape(-1, LENGTH) % 128)
        module += [number] * len(pieces[-1])
    x, x_test, y, y_test = train_test_split(
        np.concatenate(pieces).astype("int32"), np.array(module), test_size=0.2, random_state=1
    )

    def block(hidden, number):
        """Return a transformer block: attention and two dense layers, each with a residual connection."""
        seen = layers.LayerNormalization(name=f"look_{number}")(hidden)
        seen = layers.MultiHeadAttention(2, WIDTH // 2, name=f"attention_{number}")(seen, seen)
        hidden = layers.Add()([hidden, seen])
        wide = layers.LayerNormalization(name=f"think_{number}")(hidden)
        wide = layers.Dense(2 * WIDTH, activation="gelu", name=f"wide_{number}")(wide)
        return layers.Add()([hidden, layers.Dense(WIDTH, name=f"narrow_{number}")(wide)])

    characters = keras.Input((LENGTH,), dtype="int32")
    hidden = layers.Embedding(128, WIDTH, name="characters")(characters)
    hidden = layers.Conv1D(WIDTH, 3, padding="same", activation="relu", name="neighbours")(hidden)
    hidden = block(block(hidden, 1), 2)
    model = keras.Model(characters, layers.Dense(len(MODULES), name="module")(layers.GlobalMaxPooling1D()(hidden)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])

    # All layers in order, except the input. The second task has the layers from the second block on.
    names = [layer.name for layer in model.layers[1:]]
    first, second = cluster.main_devices[:2]
    cut = names.index("look_2")
    placement = {name: first if number < cut else second for number, name in enumerate(names)}
    strategy = dtf.Pipeline(placement, microbatches=4)
    run = cluster.fit(model, x, y, batch_size=128, epochs=6, strategy=strategy, name="transformer pipeline")

    print(run.placement()[["layer", "actual", "as_planned"]].to_string(index=False))
    accuracy = model.evaluate(x_test, y_test, verbose=0)[1]
    print(f"{accuracy:.1%} of the pieces right; by chance: {1 / len(MODULES):.0%}")
