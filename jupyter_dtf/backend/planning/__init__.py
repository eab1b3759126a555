"""Plans where tasks and layers run, and predicts time and memory. Pure."""
