"""Records of runs, built from their events and from the files that they leave."""
