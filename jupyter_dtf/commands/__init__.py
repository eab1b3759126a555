"""What ``jupyter dtf`` and ``%dtf`` do, and how both are asked."""
