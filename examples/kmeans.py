"""A program without Keras, with custom plots and images: k-means on two tasks: python examples/kmeans.py.

Each task holds half of the digits. In each round, it assigns its digits to the nearest of ten centers. Sums over the
digits of each center are then added up across the tasks, so all tasks move the centers to the same new positions. The
dashboard plots the values passed to `ctx.report`, and shows the centers and the distances in its Media tab.
"""

import jupyter_dtf as dtf


def k_means(args, ctx):
    import numpy as np
    from sklearn.datasets import load_digits

    digits, labels = load_digits(return_X_y=True)
    start = np.random.default_rng(args["seed"]).choice(len(digits), 10, replace=False)
    centres = digits[start]
    mine, labels = digits[ctx.rank :: ctx.size], labels[ctx.rank :: ctx.size]

    for round_ in range(args["rounds"]):
        squares = ((mine[:, None] - centres) ** 2).sum(axis=2)
        nearest = squares.argmin(axis=1)
        chosen = np.eye(10)[nearest]
        # (10, 66): for each center, the sum of its digits, their number, and the sum of their squared distances
        sums = np.column_stack([chosen.T @ mine, chosen.sum(axis=0), chosen.T @ squares.min(axis=1)])
        sums = dtf.allreduce(sums, op="sum").numpy()
        centres = sums[:, :64] / np.maximum(sums[:, 64:65], 1)

        ctx.report(round_, distance=(sums[:, 65].sum() / sums[:, 64].sum()) ** 0.5)
        ctx.report_histogram("distance to the nearest centre", squares.min(axis=1) ** 0.5, step=round_)
        if ctx.is_chief:
            rows = centres.reshape(2, 5, 8, 8).transpose(0, 2, 1, 3).reshape(16, 40)
            ctx.report_image("centres", np.kron(rows / 16, np.ones((6, 6))).clip(0, 1), step=round_)

    # The fraction of digits that are of the most frequent class around their center.
    counts = dtf.allreduce(np.eye(10)[nearest].T @ np.eye(10)[labels], op="sum").numpy()
    return float(counts.max(axis=1).sum() / counts.sum())


if __name__ == "__main__":
    with dtf.cluster(jobs={"worker": 2}) as cluster:
        run = cluster.run(k_means, {"rounds": 15, "seed": 1}, name="k-means")
        distance = run.metrics.query("metric == 'distance' and task == 'worker:0'")["value"]
        print("distance to the nearest centre by round:", *distance.round(1).to_list())
        print(f"digits of the kind that is most frequent around their centre: {run.result()[0]:.1%}")
