"""Tests of the contract that every kind of cluster (``backend.kinds.base.Kind``) must fulfill.

A package that provides a kind must be installed when its tests run. They derive a class from ``KindContract``::

    from jupyter_dtf.testing.kinds import KindContract

    class TestMine(KindContract):
        kind = "mine"
        options = {"zone": "a"}
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

import pytest

import jupyter_dtf as dtf

from .. import entry_points
from ..backend.kinds import registry
from ..backend.kinds.base import Kind
from ..client.session import session
from ..errors import InvalidInput
from ..schema.api import ClusterInfo, ClusterState
from ..schema.cluster_request import COMMON, check_name
from ..schema.hosts import wrong_places

_DESCRIBING = (
    "import json, sys; from jupyter_dtf.backend.kinds import registry; kind = registry.kinds()[sys.argv[1]]\n"
    "options = registry.check_options(kind, json.loads(sys.argv[2]))\n"
    "kind.missing(); kind.hosts(options, {'worker': 2}); kind.expected_hosts(options)\n"
    "print(*sorted({'dask', 'distributed', 'tensorflow', 'keras'} & set(sys.modules)))"
)

_TAKEN = ("backend", "design", "jobs", "kind", "name")


class KindContract:
    """Tests of one kind. Its package must be installed, so that the cluster process also finds the kind."""

    kind: str
    """The name of the kind."""
    options: Mapping[str, Any] = {}
    """The options of the cluster that is started, including all required ones; the others have their defaults."""
    workers: int | None = None
    """The number of hosts of the started cluster, if the kind does not determine it (``is_guest``)."""
    patience_s: float = 300.0
    """The longest time, in seconds, that the tests wait for hosts while the cluster does not change."""

    @pytest.fixture
    def made(self) -> Kind:
        entry_points.points.cache_clear()
        found = registry.kinds()
        assert self.kind in found, f"no entry point {self.kind!r} in {registry.GROUP}: install the package"
        return found[self.kind]

    # -- the description of the kind -------------------------------------------------------------------------------

    def test_its_name_begins_the_names_of_clusters(self, made: Kind) -> None:
        assert isinstance(made, Kind), made.missing()
        assert made.kind == self.kind
        assert check_name(f"{made.kind}-1")
        assert made.title

    def test_it_is_available_or_says_what_it_lacks(self, made: Kind) -> None:
        (info,) = (info for info in registry.describe_kinds() if info.kind == self.kind)
        assert info.available is not bool(info.missing)
        assert info.missing == made.missing()

    def test_its_options_are_valid_and_make_at_least_one_host(self, made: Kind) -> None:
        options = registry.check_options(made, self.options)
        assert set(options) == {field.name for field in made.fields()}
        assert made.hosts(options, {"worker": 3}) >= 1

    def test_its_fields_describe_themselves(self, made: Kind) -> None:
        names = [field.name for field in made.fields()]
        assert len(names) == len(set(names))
        assert not set(names) & {*COMMON, *_TAKEN}, "dtf.Cluster has keyword arguments with these names"
        for field in made.fields():
            assert field.name.isidentifier(), "must be usable as a keyword argument in Python"
            assert field.title
            assert field.type in registry.TYPES
            assert (field.type == "choice") == bool(field.choices)

    def test_at_most_one_of_its_options_counts_hosts(self, made: Kind) -> None:
        counting = [field for field in made.fields() if field.counts_hosts]
        assert len(counting) <= 1
        for field in counting:
            assert field.type == "integer"
            options = registry.check_options(made, {**self.options, field.name: 2})
            assert made.hosts(options, {"worker": 3}) == 2
            assert len(made.expected_hosts(options)) in (0, 2)

    def test_it_refuses_an_unknown_option_and_a_wrong_type(self, made: Kind) -> None:

        def check_all() -> None:
            options = registry.check_options(made, {**self.options, "no_such_option": 1})
            registry.check_more(made, options, made.more_fields(options))

        with pytest.raises(InvalidInput, match="got 'no_such_option'") as caught:
            check_all()
        assert caught.value.field == "options.no_such_option"
        for field in made.fields():
            with pytest.raises(InvalidInput, match=r"must be .*, got <object") as caught:
                registry.check_options(made, {field.name: object()})
            assert caught.value.field == f"options.{field.name}"

    def test_the_hosts_that_it_promises_can_be_drawn(self, made: Kind) -> None:
        options = registry.check_options(made, self.options)
        hosts = made.expected_hosts(options)
        assert not list(wrong_places({"worker": 1}, hosts, []))
        assert len(hosts) in (0, made.hosts(options, {"worker": 1}))

    def test_it_holds_no_state(self, made: Kind) -> None:
        assert type(made)().fields() == made.fields()

    def test_describing_it_imports_neither_dask_nor_tensorflow(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", _DESCRIBING, self.kind, json.dumps(dict(self.options))],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout.split()) == (0, []), done.stderr

    # -- a cluster of the kind -------------------------------------------------------------------------------------

    def test_a_cluster_of_it_starts_scales_trains_and_stops(self, made: Kind) -> None:
        if missing := made.missing():
            pytest.skip(missing)
        options = registry.check_options(made, self.options)
        cluster = dtf.Cluster(jobs={"worker": 2}, backend=self.kind, **self.options)
        try:
            info = self._with_hosts(cluster, self.workers or made.hosts(options, {"worker": 2}))
            assert info.kind == self.kind
            if expected_hosts := made.expected_hosts(options):
                assert sorted(host.name for host in info.hosts) == sorted(host.name for host in expected_hosts)
            assert cluster.run(_where).result() == [("worker", 0, 2), ("worker", 1, 2)]

            cluster.scale({"worker": 3})
            assert cluster.run(_where).result() == [("worker", 0, 3), ("worker", 1, 3), ("worker", 2, 3)]
            self._with_hosts(cluster, self.workers or made.hosts(options, {"worker": 3}))

            import keras
            import numpy as np

            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            run = cluster.fit(model, np.ones((12, 2), "float32"), np.ones((12, 1), "float32"), batch_size=6, epochs=2)
            assert len(run.history["loss"]) == 2
        finally:
            cluster.close()
        assert cluster.status == ClusterState.STOPPED.value

    def _with_hosts(self, cluster: dtf.Cluster, count: int) -> ClusterInfo:
        """Wait until the cluster has ``count`` hosts, and return its description."""
        cluster.wait_ready()
        changed = threading.Event()
        leave = session().do(lambda fleet: fleet.subscribe(changed.set))
        try:
            while len((info := cluster.info).hosts) != count:
                assert changed.wait(self.patience_s), f"{count} hosts must join, got {len(info.hosts)}"
                changed.clear()
        finally:
            session().do(lambda fleet: leave())
        return info


def _where(_args: Any, ctx: Any) -> tuple[str, int, int]:
    return ctx.job_name, ctx.task_index, ctx.size
