"""Between-graph replication as in 2016, on handwritten digits: python examples/between_graph.py.

All tasks run one function. The variables of a softmax regression are on a parameter server. Each of two workers has its
own client and graph, and updates the variables at its own pace.
"""

from pathlib import Path

import jupyter_dtf as dtf


def softmax_regression(args, ctx):
    import numpy as np
    import tensorflow.compat.v1 as tf
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    if ctx.job_name == "ps":
        ctx.server.join()  # returns when the workers have finished
        return None

    data, labels = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(data / 16.0, labels, test_size=0.2, random_state=1)

    with tf.Graph().as_default():
        here = f"/job:worker/task:{ctx.task_index}"
        with tf.device(tf.train.replica_device_setter(worker_device=here, cluster=ctx.cluster_spec.as_tf())):
            images = tf.placeholder(tf.float32, (None, 64))
            digits = tf.placeholder(tf.int64, (None,))
            weights = tf.get_variable("weights", (64, 10), initializer=tf.zeros_initializer())
            biases = tf.get_variable("biases", (10,), initializer=tf.zeros_initializer())
            logits = tf.matmul(images, weights) + biases
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=digits, logits=logits))
            accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), digits), tf.float32))
            global_step = tf.train.get_or_create_global_step()
            train = tf.train.GradientDescentOptimizer(args["learning_rate"]).minimize(loss, global_step)
        tf.summary.scalar("loss", loss)

        # The chief initializes the variables or restores the newest checkpoint. Only the chief writes checkpoints.
        session = tf.train.MonitoredTrainingSession(
            master=ctx.server.target,
            is_chief=ctx.is_chief,
            checkpoint_dir=str(ctx.checkpoint_dir),
            save_checkpoint_steps=200,
        )
        random = np.random.default_rng(ctx.rank)
        with session:
            for _ in range(args["steps"]):
                batch = random.integers(len(x_train), size=args["batch_size"])
                feed = {images: x_train[batch], digits: y_train[batch]}
                _, loss_value, step = session.run([train, loss, global_step], feed)
                ctx.report(step, loss=loss_value)
            return float(session.run(accuracy, {images: x_test, digits: y_test}))


if __name__ == "__main__":
    with dtf.Cluster(jobs={"ps": 1, "worker": 2}) as cluster:
        run = cluster.run(softmax_regression, {"steps": 300, "batch_size": 64, "learning_rate": 0.5})
        results = run.result()
        print(f"steps of both workers together: {run.metrics['step'].max():.0f}")
        print(f"on digits that it has not seen: {results['worker:0']:.1%} right")
        saved = sorted(Path(run.info.run_dir, "checkpoints").glob("*.index"))
        print("checkpoints:", *[path.name for path in saved])
