"""The Python API: clusters, runs, training, searches, model placement and TensorFlow servers."""
