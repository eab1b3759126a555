"""Contains data sources whose batches all tasks share: one module per form of data, each implementing
``base.BatchSource``.
"""
