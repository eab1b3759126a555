"""Training on other machines: python examples/ssh.py gpu1 alice@gpu2:2222.

`ssh gpu1` must work without prompting, and this package must be installed on the machines. docs/ssh.md has the details.
"""

import argparse

import jupyter_dtf as dtf

parser = argparse.ArgumentParser()
parser.add_argument("hosts", nargs="+", help="as in alice@gpu2:2222")
parser.add_argument("--key-file", default="", help="a private key; by default those of the agent and of ~/.ssh")
parser.add_argument("--known-hosts", default="", help="by default ~/.ssh/known_hosts")
args = parser.parse_args()

with dtf.Cluster(
    backend="ssh",
    hosts=args.hosts,
    key_file=args.key_file,
    known_hosts=args.known_hosts,
    jobs={"worker": len(args.hosts)},
) as cluster:
    import keras
    from sklearn.datasets import load_digits

    keras.utils.set_random_seed(1)
    x, y = load_digits(return_X_y=True)
    layers = [keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential(layers, name="digits")
    model.compile(keras.optimizers.Adam(0.005), "sparse_categorical_crossentropy", metrics=["accuracy"])
    run = cluster.fit(model, x / 16, y, batch_size=64, epochs=5, validation_split=0.2)

    for task in run.info.tasks:
        print(f"{task.task} ran on {task.host}")
    print(f"on digits that it has not seen: {run.history['val_accuracy'][-1]:.1%} right")
