"""Several processes predict with a trained model, each for its part of the files: python mnist_inference.py.

A program for TensorFlowOnSpark in which only the lines that create the context are changed.
mnist_data_setup.py writes the data, mnist_spark.py the model.
"""

import argparse
from pathlib import Path

from jupyter_dtf.compat import SparkContext, TFParallel


def inference(args, ctx):
    import numpy as np
    import tensorflow as tf

    model = tf.saved_model.load(args.export_dir, tags="serve")
    predict = model.signatures["serving_default"]
    features = {"image": tf.io.FixedLenFeature((64,), tf.int64), "label": tf.io.FixedLenFeature((), tf.int64)}

    def parse(record):
        row = tf.io.parse_single_example(record, features)
        return tf.reshape(tf.cast(row["image"], tf.float32), (8, 8, 1)) / 16, row["label"]

    files = tf.data.Dataset.list_files(f"{args.images_labels}/part-*", shuffle=False)
    dataset = files.shard(ctx.num_workers, ctx.worker_num).interleave(tf.data.TFRecordDataset).map(parse).batch(10)

    tf.io.gfile.makedirs(args.output)
    with tf.io.gfile.GFile(f"{args.output}/part-{ctx.worker_num:05d}", "w") as file:
        for images, labels in dataset:
            answers = np.argmax(predict(image=images)["output_0"], axis=1)
            for label, answer in zip(labels.numpy(), answers, strict=True):
                file.write(f"{label} {answer}\n")


if __name__ == "__main__":
    sc = SparkContext()
    executors = int(sc.getConf().get("spark.executor.instances"))

    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=executors)
    parser.add_argument("--images_labels", default="digits/tfr")
    parser.add_argument("--export_dir", default="mnist_export")
    parser.add_argument("--output", default="answers")
    args, _ = parser.parse_known_args()

    TFParallel.run(sc, inference, args, args.cluster_size)
    parts = sorted(Path(args.output).glob("part-*"))
    lines = [line.split() for part in parts for line in part.read_text().splitlines()]
    right = sum(label == answer for label, answer in lines)
    print(f"{len(parts)} parts: {right / len(lines):.1%} of {len(lines)} digits are right")
    sc.stop()
