"""An unchanged elastic Horovod program: ``jupyter dtf run -n 2 horovod_elastic.py``.

With ``--fail-at 3``, rank 1 fails once, in epoch 3: all tasks return to the last commit and continue training.
"""

import argparse

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from horovod.common.exceptions import HorovodInternalError
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--fail-at", type=int, default=-1, metavar="EPOCH")
args = parser.parse_args()

hvd.init()

images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32")
examples = tf.data.Dataset.from_tensor_slices((images, labels)).shard(hvd.size(), hvd.rank())
batches = examples.repeat().shuffle(1000, seed=hvd.rank()).batch(32)

model = tf.keras.Sequential(
    [tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10, activation="softmax")]
)
optimizer = hvd.DistributedOptimizer(tf.optimizers.Adam(0.001 * hvd.size()))
model.compile(loss=tf.losses.SparseCategoricalCrossentropy(), optimizer=optimizer, metrics=["accuracy"])
model.fit(batches, steps_per_epoch=1, epochs=1, verbose=0)  # creates the optimizer's variables

state = hvd.elastic.KerasState(model, batch=0, epoch=0)
resets = []
state.register_reset_callbacks([lambda: tf.keras.backend.set_value(model.optimizer.lr, 0.001 * hvd.size())])
state.register_reset_callbacks([lambda: resets.append(state.epoch)])


class Failing(tf.keras.callbacks.Callback):
    """Simulates a failing machine."""

    def on_train_batch_end(self, batch, logs=None):
        if state.epoch == args.fail_at and batch == 5 and hvd.rank() == 1 and not resets:
            raise HorovodInternalError("an error that will not come again")


callbacks = [
    Failing(),
    hvd.elastic.UpdateEpochStateCallback(state),
    hvd.elastic.UpdateBatchStateCallback(state),
    hvd.elastic.CommitStateCallback(state, batches_per_commit=10),
]


@hvd.elastic.run
def train(state):
    return state.model.fit(
        batches,
        steps_per_epoch=56 // hvd.size(),
        epochs=args.epochs - state.epoch,
        callbacks=callbacks,
        verbose=2 if hvd.rank() == 0 else 0,
    )


train(state)
loss, accuracy = model.evaluate(images, labels, verbose=0)
if hvd.rank() == 0:
    print(f"{state.epoch} epochs, {len(resets)} resets: {accuracy:.1%} of the digits right")
