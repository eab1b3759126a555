"""An unchanged Horovod program that calls ``model.fit``: ``jupyter dtf run -n 2 horovod_keras.py``."""

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from sklearn.datasets import load_digits

EPOCHS = 8

hvd.init()

gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32")
held_out = (images[1500:], labels[1500:])
examples = tf.data.Dataset.from_tensor_slices((images[:1500], labels[:1500]))
batches = examples.shard(hvd.size(), hvd.rank()).repeat().shuffle(1000, seed=hvd.rank()).batch(32)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dropout(0.2),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)

scaled_lr = 0.05 * hvd.size()
optimizer = tf.optimizers.SGD(scaled_lr, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, backward_passes_per_step=1, average_aggregated_gradients=True)

model.compile(
    loss=tf.losses.SparseCategoricalCrossentropy(),
    optimizer=optimizer,
    metrics=["accuracy"],
    experimental_run_tf_function=False,
)

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=3, verbose=1),
]
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.ModelCheckpoint("./horovod-{epoch}.keras"))

history = model.fit(
    batches,
    steps_per_epoch=47 // hvd.size(),
    epochs=EPOCHS,
    callbacks=callbacks,
    validation_data=held_out,
    validation_batch_size=297,
    verbose=2 if hvd.rank() == 0 else 0,
)
if hvd.rank() == 0:
    print(f"{hvd.size()} tasks: {history.history['val_accuracy'][-1]:.1%} of the digits not seen right")
