"""The commands that ``jupyter dtf`` and ``%dtf`` share, and their arguments."""
