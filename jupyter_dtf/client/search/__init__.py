"""Many trials on a cluster in parallel (``trial_runs``), and searches driven by Optuna."""
