"""A recommender with a large embedding on parameter servers: python examples/recommender.py.

The customers are modules of Python's standard library, and their purchases are the names that they use. Two workers
train on pairs of a module and a name, each at its own pace. The embedding of the names is split by rows across two
parameter servers. Of its gradients, only the rows of the names in a batch are sent.
"""

import jupyter_dtf as dtf

WIDTH = 16

with dtf.cluster(jobs={"worker": 2}) as cluster:
    import keyword
    import re
    import sysconfig
    from pathlib import Path

    import keras
    import numpy as np
    from keras import layers

    keras.utils.set_random_seed(1)
    random = np.random.default_rng(1)

    library = Path(sysconfig.get_paths()["stdlib"])
    uses = {}
    for path in sorted([*library.glob("[a-z]*.py"), *library.glob("[a-z]*/[a-z]*.py")]):
        if not {"test", "tests", "idlelib", "site-packages"} & set(path.parts):
            found = set(re.findall(r"[A-Za-z]\w{2,}", path.read_text(encoding="utf-8", errors="ignore")))
            uses[".".join(path.relative_to(library).with_suffix("").parts)] = found - set(keyword.kwlist)
    modules, names = list(uses), sorted(set().union(*uses.values()))
    number = {name: position for position, name in enumerate(names)}
    bought = np.array([(m, number[name]) for m, module in enumerate(modules) for name in sorted(uses[module])])

    # One pair in ten is held out. For comparison, `beside` pairs the same modules with names drawn from all pairs.
    random.shuffle(bought)
    train, test = np.split(bought, [len(bought) * 9 // 10])

    def beside(pairs):
        return np.stack([pairs[:, 0], random.permutation(bought[:, 1])[: len(pairs)]], axis=1)

    x = np.concatenate([train, beside(train), beside(train)])
    y = np.repeat([1, 0, 0], len(train))

    module, name = keras.Input((), dtype="int32", name="module"), keras.Input((), dtype="int32", name="name")
    customer = layers.Embedding(len(modules), WIDTH, name="modules")(module)
    product = layers.Embedding(len(names), WIDTH, name="names")(name)
    taste = layers.Dot(1)([customer, product])
    model = keras.Model([module, name], layers.Activation("sigmoid")(taste), name="recommender")
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])

    run = cluster.fit(
        model,
        {"module": x[:, 0], "name": x[:, 1]},
        y,
        batch_size=2048,
        epochs=3,
        strategy=dtf.ParameterServer(split_bytes=1 << 19),
        jobs={"worker": 2, "ps": 2},
    )

    def score(pairs):
        return model.predict({"module": pairs[:, 0], "name": pairs[:, 1]}, batch_size=8192, verbose=0)[:, 0]

    print(f"{len(modules)} modules, {len(names)} names, {len(bought)} pairs")
    print(f"updates: { {worker: counts['applied'] for worker, counts in run.updates.items()} }")
    right = np.mean(score(test) > score(beside(test)))
    print(f"which of two names does a module use? {right:.1%} right; by chance: 50%")
    for customer in ("random", "http.client"):
        every = np.stack([np.full(len(names), modules.index(customer)), np.arange(len(names))], axis=1)
        best = [names[n] for n in score(every).argsort()[::-1] if names[n] not in uses[customer]][:6]
        print(f"{customer} may like: {', '.join(best)}")
