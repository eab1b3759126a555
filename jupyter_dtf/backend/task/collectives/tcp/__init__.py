"""Collectives between machines over TCP, with connections that only tasks of the run can establish."""
