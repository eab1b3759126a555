"""Plans where tasks and layers run, and predicts how much time and memory they need. Pure."""
