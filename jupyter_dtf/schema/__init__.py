"""Typed structs for the data that processes exchange, validated when they are created or decoded."""
