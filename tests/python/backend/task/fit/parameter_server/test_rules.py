"""Tests of the rules for when gradients are applied and workers continue, without any tasks."""

from __future__ import annotations

import random

import pytest

from jupyter_dtf.backend.task.fit.parameter_server.rules import Asynchronous, Following, Synchronous


def sets(*groups: set[int]) -> list[frozenset[int]]:
    return [frozenset(group) for group in groups]


def test_asynchronously_every_gradient_is_an_update() -> None:
    rule = Asynchronous(range(2), None)
    assert rule.push(1, 0) == sets({1})
    assert rule.push(1, 1) == sets({1})
    assert rule.version == 2
    assert rule.may_go_on(1)


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_nobody_gets_more_than_the_bound_ahead_of_the_slowest(bound: int) -> None:
    rule = Asynchronous(range(3), bound)
    chooses = random.Random(bound)
    steps, waiting = [0, 0, 0], set[int]()
    for _ in range(500):
        able = [worker for worker in range(3) if worker not in waiting]
        assert able, "the slowest is never held back"
        worker = chooses.choice(able)
        rule.push(worker, rule.version)
        steps[worker] += 1
        waiting.add(worker)
        waiting = {w for w in waiting if not rule.may_go_on(w)}
        at_work = [w for w in range(3) if w not in waiting]
        assert max(steps[w] for w in at_work) - min(steps) <= bound
    assert len(set(steps)) > 1 or bound == 0


def test_the_bound_is_to_the_slowest_that_still_trains() -> None:
    rule = Asynchronous(range(2), 0)
    rule.push(0, 0)
    assert not rule.may_go_on(0)
    rule.leave(1)
    assert rule.may_go_on(0)


def test_in_step_an_update_takes_everyone() -> None:
    rule = Synchronous(range(2), 0)
    assert rule.push(1, 0) == []
    assert not rule.may_go_on(1)
    assert rule.push(0, 0) == sets({0, 1})
    assert rule.may_go_on(0) and rule.may_go_on(1)
    assert rule.version == 1


def test_with_a_backup_worker_the_late_gradient_is_dropped() -> None:
    rule = Synchronous(range(3), 1)
    rule.push(2, 0)
    assert rule.push(0, 0) == sets({0, 2})
    assert rule.push(1, 0) == []
    assert rule.may_go_on(1)
    assert rule.dropped == {0: 0, 1: 1, 2: 0}
    assert rule.push(1, 1) == []
    assert not rule.may_go_on(1)


def test_a_worker_that_leaves_is_not_waited_for() -> None:
    rule = Synchronous(range(2), 0)
    rule.push(0, 0)
    assert rule.leave(1) == sets({0})
    assert rule.push(0, 1) == sets({0})


def test_a_follower_applies_what_was_decided_and_nothing_before() -> None:
    rule = Following(range(3))
    assert rule.push(1, 0) == []
    assert rule.push(0, 0) == []
    assert rule.decide(0, [0, 2]) == []
    assert rule.push(2, 0) == sets({0, 2})
    assert rule.dropped == {0: 0, 1: 1, 2: 0}
    assert all(rule.may_go_on(worker) for worker in range(3))


def test_leader_and_follower_make_the_same_updates_whatever_the_order() -> None:
    """This holds although gradients reach the two in different orders, and decisions arrive late."""
    chooses = random.Random(1)
    leader, follower = Synchronous(range(4), 1), Following(range(4))
    decisions: list[tuple[int, frozenset[int]]] = []
    made: dict[str, list[frozenset[int]]] = {"leader": [], "follower": []}
    on_its_way: dict[str, dict[int, int]] = {"leader": {}, "follower": {}}
    for _ in range(3000):
        for worker in range(4):
            idle = worker not in on_its_way["leader"] and worker not in on_its_way["follower"]
            here = leader.version == follower.version
            if idle and here and leader.may_go_on(worker) and follower.may_go_on(worker):
                on_its_way["leader"][worker] = on_its_way["follower"][worker] = leader.version
        moves = [(name, worker) for name, sent in on_its_way.items() for worker in sent]
        if decisions and (not moves or chooses.random() < 0.3):
            made["follower"] += follower.decide(*decisions.pop(0))
            continue
        name, worker = chooses.choice(moves)
        version = on_its_way[name].pop(worker)
        if name == "follower":
            made["follower"] += follower.push(worker, version)
            continue
        for chosen in leader.push(worker, version):
            made["leader"].append(chosen)
            decisions.append((leader.version - 1, chosen))
    shared = min(map(len, made.values()))
    assert shared > 100
    assert made["leader"][:shared] == made["follower"][:shared]
    assert sum(leader.dropped.values()) > 50


def test_nobody_waits_for_a_worker_that_has_gone_nor_for_it_to_catch_up() -> None:
    rule = Asynchronous(range(3), 2)
    for _ in range(5):
        rule.push(0, 0)
    for _ in range(4):
        rule.push(1, 0)
    assert not rule.may_go_on(0)
    assert rule.lose(2) == []
    assert rule.may_go_on(0)
    rule.come_back(2, rule.version)
    assert rule.present == {0, 1, 2}
    assert rule.may_go_on(0)
    rule.push(0, 0)
    rule.push(0, 0)
    assert not rule.may_go_on(0)
    rule.push(1, 0)
    assert not rule.may_go_on(0), "the one that came back is behind now"
    rule.push(2, 0)
    assert rule.may_go_on(0)


def test_the_barrier_does_not_wait_for_who_has_gone_and_takes_it_in_again() -> None:
    rule = Synchronous(range(3), 1)
    rule.push(2, 0)
    assert rule.lose(2) == []
    assert rule.push(0, 0) == [], "the others are as many as a step takes"
    assert rule.push(1, 0) == sets({0, 1})
    rule.come_back(2, 1)
    rule.push(2, 1)
    assert rule.push(0, 1) == sets({0, 2})
    rule.push(0, 2)
    rule.lose(1)
    assert rule.lose(2) == sets({0}), "all that are left"
    assert rule.push(0, 3) == sets({0})


def test_a_follower_leaves_out_what_has_not_come_before_its_worker_went() -> None:
    rule = Following(range(3))
    rule.push(0, 0)
    assert rule.decide(0, [0, 2]) == []
    assert rule.lose(2) == sets({0})
    assert rule.version == 1
    rule.decide(1, [2])  # the first server had received this gradient before the worker was lost
    rule.come_back(2, 2)
    assert rule.decide(2, [0, 2]) == []
    rule.push(0, 2)
    assert rule.push(2, 2) == sets({0, 2})


def test_a_step_of_which_nothing_has_come_is_passed_over() -> None:
    rule = Following(range(2))
    rule.lose(1)
    assert rule.decide(0, [1]) == [frozenset()]
    assert rule.version == 1
