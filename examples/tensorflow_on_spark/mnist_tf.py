"""Two nodes read handwritten digits themselves (InputMode.TENSORFLOW): python mnist_tf.py.

A program for TensorFlowOnSpark in which only the lines that create the context are changed.
mnist_data_setup.py writes the data.
"""

import argparse

from jupyter_dtf.compat import SparkContext, TFCluster


def main_fun(args, ctx):
    import tensorflow as tf
    from tensorflowonspark import compat

    import jupyter_dtf as dtf

    features = {"image": tf.io.FixedLenFeature((64,), tf.int64), "label": tf.io.FixedLenFeature((), tf.int64)}

    def parse(record):
        row = tf.io.parse_single_example(record, features)
        return tf.reshape(tf.cast(row["image"], tf.float32), (8, 8, 1)) / 16, row["label"]

    rank = 0 if ctx.job_name == "chief" else 1 + ctx.task_index
    files = tf.data.Dataset.list_files(f"{ctx.absolute_path(args.images_labels)}/part-*", shuffle=False)
    dataset = files.shard(ctx.num_workers, rank).interleave(tf.data.TFRecordDataset).map(parse)
    dataset = dataset.repeat().shuffle(args.buffer_size, seed=1).batch(args.batch_size)

    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.Input((8, 8, 1), name="image"), tf.keras.layers.Conv2D(32, 3, activation="relu")]
    layers += [tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, activation="softmax")]
    model = tf.keras.Sequential(layers)
    optimizer = dtf.DistributedOptimizer(tf.keras.optimizers.Adam(0.005))
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(dataset, epochs=args.epochs, steps_per_epoch=args.steps_per_epoch, verbose=0)
    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")
    return history.history["accuracy"][-1]


if __name__ == "__main__":
    sc = SparkContext()
    executors = int(sc.getConf().get("spark.executor.instances"))

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--buffer_size", type=int, default=1000)
    parser.add_argument("--cluster_size", type=int, default=executors)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images_labels", default="digits/tfr")
    parser.add_argument("--export_dir", default="mnist_tf_export")
    parser.add_argument("--steps_per_epoch", type=int, default=28)
    args = parser.parse_args()

    mode = TFCluster.InputMode.TENSORFLOW
    cluster = TFCluster.run(sc, main_fun, args, args.cluster_size, num_ps=0, input_mode=mode, master_node="chief")
    cluster.shutdown()
    print(f"accuracy of the last epoch: {cluster.run.result()['chief:0']:.3f}")
    sc.stop()
