"""Runs many trials on a cluster in parallel (``trial_runs``), and searches for hyperparameters with Optuna."""
