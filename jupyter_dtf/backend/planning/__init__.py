"""Pure: what will run where, and what it will take."""
