"""A model trained with its layers on the devices of several tasks: one client, one graph, microbatches that overlap."""
