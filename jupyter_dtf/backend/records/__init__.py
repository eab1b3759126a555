"""What is known of runs: by applying their events in order, and from the files that they leave."""
