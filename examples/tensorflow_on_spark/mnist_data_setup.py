"""Writes handwritten digits as lines of text and as TFRecord files, in several parts: python mnist_data_setup.py.

Each line contains a label and 64 pixels from 0 to 16. Each record has the features "label" and "image".
"""

import argparse

from sklearn.datasets import load_digits

from jupyter_dtf.compat import SparkContext, dfutil

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="digits", help="where the directories csv and tfr are written")
    parser.add_argument("--partitions", type=int, default=10)
    args = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    with SparkContext() as sc:
        rows = [([int(pixel) for pixel in image], int(label)) for image, label in zip(images, labels, strict=True)]
        digits = sc.parallelize(rows, args.partitions)
        digits.map(lambda row: ",".join(map(str, [row[1], *row[0]]))).saveAsTextFile(f"{args.output}/csv")
        dfutil.saveAsTFRecords(digits.toDF(["image", "label"]), f"{args.output}/tfr")
        print(f"{digits.count()} digits in {digits.getNumPartitions()} parts")
