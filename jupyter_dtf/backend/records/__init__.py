"""Records of runs, built from the runs' events and from the files that the runs leave behind."""
