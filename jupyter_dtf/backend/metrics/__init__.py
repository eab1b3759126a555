"""What is known of runs: records built from events, the store that keeps them, the hub that viewers read."""
