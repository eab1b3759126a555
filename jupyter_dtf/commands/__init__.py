"""Commands that are shared by ``jupyter dtf`` and ``%dtf``, and their arguments."""
