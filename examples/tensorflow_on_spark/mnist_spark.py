"""Dask feeds handwritten digits to a Keras model on two nodes (InputMode.SPARK): python mnist_spark.py.

A program for TensorFlowOnSpark in which only the lines that create the context are changed. With Keras 3, the
optimizer averages the gradients of the nodes; no strategy is used. mnist_data_setup.py writes the data.
"""

import argparse

from jupyter_dtf.compat import SparkContext, TFCluster


def main_fun(args, ctx):
    import numpy as np
    import tensorflow as tf
    from tensorflowonspark import TFNode, compat

    import jupyter_dtf as dtf

    feed = TFNode.DataFeed(ctx.mgr)

    def examples():
        while not feed.should_stop():
            for image, label in feed.next_batch(args.batch_size):
                yield np.reshape(image, (8, 8, 1)) / 16, label

    types = tf.TensorSpec((8, 8, 1), tf.float32), tf.TensorSpec((), tf.int64)
    dataset = tf.data.Dataset.from_generator(examples, output_signature=types).batch(args.batch_size)

    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1), name="image"),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    optimizer = dtf.DistributedOptimizer(tf.keras.optimizers.Adam())
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])

    # The nodes execute every step together. Partitions differ in size, so each node stops before its data ends.
    steps = int(0.9 * args.examples * args.epochs / (args.batch_size * ctx.num_workers))
    history = model.fit(dataset, epochs=args.epochs, steps_per_epoch=steps // args.epochs, verbose=0)
    print(f"accuracy by epoch: {[round(value, 3) for value in history.history['accuracy']]}")

    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")
    feed.terminate()  # the remaining data is not needed
    return history.history["accuracy"][-1]


if __name__ == "__main__":
    sc = SparkContext()
    executors = int(sc.getConf().get("spark.executor.instances"))

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--cluster_size", type=int, default=executors)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--examples", type=int, default=1797)
    parser.add_argument("--images_labels", default="digits/csv")
    parser.add_argument("--export_dir", default="mnist_export")
    args = parser.parse_args()

    def parse(line):
        label, *pixels = (int(value) for value in line.split(","))
        return pixels, label

    digits = sc.textFile(args.images_labels).map(parse)
    cluster = TFCluster.run(
        sc,
        main_fun,
        args,
        args.cluster_size,
        num_ps=0,
        input_mode=TFCluster.InputMode.SPARK,
        master_node="chief",
    )
    cluster.train(digits, args.epochs)
    cluster.shutdown()
    print(f"accuracy of the last epoch: {cluster.run.result()['chief:0']:.3f}")
    sc.stop()
