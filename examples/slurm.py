"""Training in jobs of a batch system: python examples/slurm.py --queue gpu --walltime 00:30:00.

Run this on a machine where `sbatch` works. Each job is one host of the cluster, and is cancelled when the training is
over. docs/jobqueue.md has the details, and shows how to use PBS, Grid Engine, LSF, HTCondor and OAR.
"""

import argparse

import jupyter_dtf as dtf

parser = argparse.ArgumentParser()
parser.add_argument("--queue", default="")
parser.add_argument("--account", default="")
parser.add_argument("--walltime", default="00:30:00")
parser.add_argument("--cores", type=int, default=1, help="of each job")
parser.add_argument("--memory", type=int, default=4, help="of each job, in GiB")
parser.add_argument("--interface", default="", help="the network that the nodes share, as ib0")
args = parser.parse_args()

with dtf.Cluster(
    backend="slurm",
    jobs={"worker": 2},
    queue=args.queue,
    account=args.account,
    walltime=args.walltime,
    cores=args.cores,
    memory_bytes=args.memory << 30,
    interface=args.interface,
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
        print(f"{task.task} ran in the job {task.host}")
    print(f"on digits that it has not seen: {run.history['val_accuracy'][-1]:.1%} right")
