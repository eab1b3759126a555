"""Horovod's synthetic benchmark, scaled down: ``jupyter dtf run -n 2 horovod_benchmark.py -- --fp16-allreduce``."""

import argparse
import timeit

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--fp16-allreduce", action="store_true", help="halve what travels")
parser.add_argument("--units", type=int, default=512, help="size of the three hidden layers")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--num-batches-per-iter", type=int, default=20)
parser.add_argument("--num-iters", type=int, default=5)
args = parser.parse_args()

hvd.init()

model = tf.keras.Sequential([tf.keras.layers.Dense(args.units, activation="relu") for _ in range(3)])
model.add(tf.keras.layers.Dense(10, activation="softmax"))
optimizer = tf.optimizers.SGD(0.01)
data = tf.random.uniform([args.batch_size, 784])
target = tf.random.uniform([args.batch_size], maxval=10, dtype=tf.int64)


@tf.function
def benchmark_step(first_batch):
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    with tf.GradientTape() as tape:
        loss = tf.losses.SparseCategoricalCrossentropy()(target, model(data, training=True))
    tape = hvd.DistributedGradientTape(tape, compression=compression)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(optimizer.variables(), root_rank=0)


def log(text):
    if hvd.rank() == 0:
        print(text)


benchmark_step(first_batch=True)
benchmark_step(first_batch=False)
rates = []
for iteration in range(args.num_iters):
    seconds = timeit.timeit(lambda: benchmark_step(first_batch=False), number=args.num_batches_per_iter)
    rates.append(args.batch_size * args.num_batches_per_iter / seconds)
    log(f"Iteration {iteration}: {rates[-1]:.0f} examples/s per task")
log(f"Examples/s per task: {np.mean(rates):.0f} +- {1.96 * np.std(rates):.0f}")
log(f"Examples/s of {hvd.size()} tasks: {hvd.size() * np.mean(rates):.0f}")
