"""Tests of what is sent of Dask collections, and of who keeps their computed partitions in memory."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

from jupyter_dtf.backend.machine.partition import assemble
from jupyter_dtf.client.feed import Feed
from jupyter_dtf.client.sources.dask_collections import source_of
from jupyter_dtf.errors import InvalidInput

ARRAY = da.ones((8, 3), chunks=4)
PAIR = dask.delayed((np.ones((4, 3)), np.ones(4)))


@pytest.mark.parametrize(
    ("x", "y", "structure"),
    [
        (ARRAY, None, 0),
        ([ARRAY], None, ((0,),)),
        ([ARRAY, ARRAY], None, ((0, 1),)),
        ((ARRAY, ARRAY, ARRAY), None, ((0, 1, 2),)),
        ((PAIR[0], PAIR[1]), None, ((0, 1),)),
        ((ARRAY, ARRAY), ARRAY, ((0, 1), 2)),
        (PAIR, None, (0, 1)),
        ([PAIR, PAIR], None, (0, 1)),
        (db.from_sequence([(1.0, 2)] * 4, npartitions=2), None, (0, 1)),
    ],
    ids=["x", "one", "two inputs", "three inputs", "two delayed", "two, y", "delayed", "delayed parts", "bag"],
)
def test_a_tuple_of_collections_is_inputs_and_a_tuple_of_an_object_has_y(x: Any, y: Any, structure: Any) -> None:
    source = source_of(x, y, None, "x")
    assert source is not None
    (part,) = dask.compute(source._parts[0], scheduler="sync")
    assert assemble(*part)[1].structure == structure


def test_weights_without_labels_are_refused() -> None:
    for x, weights in ((ARRAY, ARRAY), (Feed(ARRAY, None, ARRAY), None)):
        with pytest.raises(InvalidInput, match="`sample_weight` must be given with y"):
            source_of(x, None, weights, "x")


def test_every_run_holds_partitions_of_its_own() -> None:
    """A run keeps its partitions if another run of the same data releases its own, as when a run is resumed."""
    source = source_of(ARRAY, None, None, "x")
    assert source is not None
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as local, Client(local) as client:
        first, second = source.compute_on(client), source.compute_on(client)
        first.release()
        wait(second._futures)
        assert all(client.who_has(second._futures).values())
