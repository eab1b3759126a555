"""An unchanged Horovod program with a custom training loop: ``jupyter dtf run -n 2 horovod_tensorflow2.py``."""

import horovod.tensorflow as hvd
import tensorflow as tf
from sklearn.datasets import load_digits

STEPS = 400

hvd.init()

gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32")
examples = tf.data.Dataset.from_tensor_slices((images, labels)).shard(hvd.size(), hvd.rank())
batches = examples.repeat().shuffle(1000, seed=hvd.rank()).batch(32)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dropout(0.2),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
loss = tf.losses.SparseCategoricalCrossentropy()
optimizer = tf.optimizers.Adam(0.001 * hvd.size())
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)


@tf.function
def training_step(x, y, first_batch):
    with tf.GradientTape() as tape:
        value = loss(y, model(x, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(value, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    if first_batch:  # the optimizer has created its variables by now
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(optimizer.variables(), root_rank=0)
    return value


for step, (x, y) in enumerate(batches.take(STEPS // hvd.size())):
    value = training_step(x, y, step == 0)
    if step % 50 == 0 and hvd.rank() == 0:
        print(f"Step {step}: loss {value:.4f}")

right = tf.reduce_mean(tf.cast(tf.argmax(model(images), 1) == labels, tf.float32))
if hvd.rank() == 0:
    checkpoint.save("./horovod-checkpoints/digits")
    print(f"{hvd.size()} tasks: {right:.1%} of the digits right")
