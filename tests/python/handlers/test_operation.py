"""A handler alone makes a route: its methods' declarations determine what is decoded, checked and described."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.handlers import routes
from jupyter_dtf.handlers.base import Handler
from jupyter_dtf.handlers.openapi import OPERATIONS
from jupyter_dtf.handlers.operation import operation, operation_of
from jupyter_dtf.schema.api import ClusterPatch, ExampleCopy

from .conftest import Api


class Fresh(Handler):
    @operation("One page", errors=(404,))
    async def get(
        self,
        name: str,
        *,
        first: Annotated[int, "The first line"] = 0,
        since: Annotated[float | None, "Only what is later"] = None,
        word: Annotated[str, "Only what has this word"] = "",
    ) -> list[ExampleCopy]:
        return [ExampleCopy(path=repr((name, first, since, word)))]

    @operation("Change it", status=202)
    async def post(self, name: str, *, body: ClusterPatch) -> ExampleCopy:
        return ExampleCopy(path=f"{name} {body.jobs}")

    @operation("Answer what was not declared")
    async def put(self, name: str) -> list[ExampleCopy]:
        wrong: Any = [ExampleCopy(path=name), name]
        return wrong  # type: ignore[no-any-return]

    @operation("Forget it")
    async def delete(self, name: str) -> None:
        if name != "a":
            raise InvalidInput("must be a", field="name")


@pytest.fixture
def jp_server_config(jp_server_config: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Add the handler to the table of routes, which is all that it needs."""
    monkeypatch.setitem(routes.ROUTES, "/fresh/{name}", Fresh)
    return jp_server_config


async def test_what_is_declared_is_decoded_and_answered(api: Api) -> None:
    assert await api("GET", "fresh", "a") == [{"path": "('a', 0, None, '')"}]
    asked = await api("GET", "fresh", "a", first="-3", since="1.5", word="b c")
    assert asked == [{"path": "('a', -3, 1.5, 'b c')"}]
    assert await api("POST", "fresh", "a", body={"jobs": {"worker": 3}}) == {"path": "a {'worker': 3}"}
    assert api.response.code == 202
    assert await api("DELETE", "fresh", "a") == ""
    assert api.response.code == 204


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"first": "x"}, "`first` must be an integer, got 'x'"),
        ({"first": ""}, "`first` must be an integer, got ''"),
        ({"since": "nan"}, "`since` must be a number, got 'nan'"),
    ],
)
async def test_a_wrong_query_is_refused_at_its_name(api: Api, query: dict[str, str], message: str) -> None:
    error = await api.refused(400, "GET", "fresh", "a", **query)
    assert error == {"message": message, "error": "InvalidInput", "field": next(iter(query))}


async def test_a_wrong_body_is_refused_before_the_method(api: Api) -> None:
    assert (await api.refused(400, "POST", "fresh", "a", body={"jobs": {"worker": 0}}))["field"] == "jobs.worker"
    assert (await api.refused(400, "POST", "fresh", "a", body={"job": {}}))["error"] == "InvalidInput"


async def test_an_answer_that_was_not_declared_is_a_mistake_of_the_server(api: Api, caplog: Any) -> None:
    assert (await api.refused(500, "PUT", "fresh", "a"))["error"] == "InternalError"
    assert "must return the declared type" in caplog.text


def test_the_declaration_says_all() -> None:
    said = operation_of(Fresh.get)
    assert (said.path, said.answer, said.status, said.errors) == (("name",), list[ExampleCopy], 200, (404, 400))
    assert [(query.name, query.type, query.default) for query in said.query] == [
        ("first", int, 0),
        ("since", float, None),
        ("word", str, ""),
    ]
    assert operation_of(Fresh.post).body is ClusterPatch
    assert operation_of(Fresh.delete).status == 204


def test_a_method_without_a_declaration_is_named() -> None:
    class Undeclared(Handler):
        async def get(self) -> None: ...

    with pytest.raises(LookupError, match=r"Undeclared\.get of .* is not declared: decorate it with @operation"):
        operation_of(Undeclared.get)


def test_a_parameter_of_the_query_says_what_it_is() -> None:
    async def get(self: Any, *, first: int = 0) -> None: ...

    with pytest.raises(TypeError, match="first of .*get must be Annotated with its description"):
        operation("One page")(get)


def test_every_method_takes_the_parts_of_its_path() -> None:
    for (path, method), said in OPERATIONS.items():
        assert [f"{{{name}}}" for name in said.path] == [part for part in path.split("/") if part[:1] == "{"], method
