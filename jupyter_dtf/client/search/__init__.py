"""Many trials over a cluster: how they run side by side (``trial_runs``), and a search over them by Optuna."""
