"""What is known about runs, from their events and from the files they leave."""
