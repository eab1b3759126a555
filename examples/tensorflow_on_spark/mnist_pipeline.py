"""Handwritten digits as a dataframe: trains an estimator and applies its model: python mnist_pipeline.py.

A program for TensorFlowOnSpark in which only the lines that create the context are changed.
mnist_data_setup.py writes the data.
"""

import argparse

from jupyter_dtf.compat import SparkContext, dfutil
from jupyter_dtf.compat.tensorflow_on_spark.pipeline import TFEstimator, TFModel


def main_fun(args, ctx):
    import numpy as np
    import tensorflow as tf
    from tensorflowonspark import TFNode, compat

    import jupyter_dtf as dtf

    feed = TFNode.DataFeed(ctx.mgr, input_mapping=args.input_mapping)

    def batches():
        while not feed.should_stop():
            batch = feed.next_batch(args.batch_size)
            if len(batch["image"]) == args.batch_size:
                yield np.reshape(batch["image"], (-1, 8, 8, 1)), batch["label"]

    types = tf.TensorSpec((None, 8, 8, 1), tf.float32), tf.TensorSpec((None,), tf.int64)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=types)

    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.Input((8, 8, 1), name="image"), tf.keras.layers.Rescaling(1 / 16)]
    layers += [tf.keras.layers.Flatten(), tf.keras.layers.Dense(64, activation="relu")]
    layers += [tf.keras.layers.Dense(10, activation="softmax")]
    model = tf.keras.Sequential(layers)
    optimizer = dtf.DistributedOptimizer(tf.keras.optimizers.Adam(0.005))
    model.compile(optimizer, loss="sparse_categorical_crossentropy")
    steps = int(0.8 * 1797 * args.epochs / (args.batch_size * ctx.num_workers))
    model.fit(dataset, steps_per_epoch=steps, verbose=0)

    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")
    feed.terminate()


if __name__ == "__main__":
    sc = SparkContext()
    executors = int(sc.getConf().get("spark.executor.instances"))

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--cluster_size", type=int, default=executors)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--images_labels", default="digits/tfr")
    parser.add_argument("--mode", choices=["train", "inference", "both"], default="both")
    parser.add_argument("--export_dir", default="mnist_pipeline_export")
    parser.add_argument("--output", default="predictions")
    args = parser.parse_args()

    df = dfutil.loadTFRecords(sc, args.images_labels)

    if args.mode != "inference":
        estimator = (
            TFEstimator(main_fun, args)
            .setInputMapping({"image": "image", "label": "label"})
            .setExportDir(args.export_dir)
            .setClusterSize(args.cluster_size)
            .setEpochs(args.epochs)
            .setBatchSize(args.batch_size)
        )
        estimator.fit(df)

    if args.mode != "train":
        model = (
            TFModel(args)
            .setInputMapping({"image": "image"})
            .setOutputMapping({"output_0": "prediction"})
            .setSignatureDefKey("serving_default")
            .setExportDir(args.export_dir)
            .setBatchSize(args.batch_size)
        )
        predicted = model.transform(df)
        digits = predicted["prediction"].map(lambda row: row.index(max(row)), meta=("digit", "int64"))
        digits.to_frame().to_json(args.output, orient="records", lines=True)
        right = (digits.compute().to_numpy() == df["label"].compute().to_numpy()).mean()
        print(f"{right:.1%} of the digits are right")
    sc.stop()
