"""Whoever checks types gets them: each function says what it takes and returns, and the package
says that it is typed."""
import ast
import inspect
import pathlib
import typing

import pytest

import rl

PACKAGE = pathlib.Path(rl.__file__).parent


def functions_of(source):
    """Every function of a module with its parameters, but for those that are the object itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            named = given.posonlyargs + given.args + given.kwonlyargs
            starred = [p for p in (given.vararg, given.kwarg) if p is not None]
            yield node, [p for p in named + starred if p.arg not in ("self", "cls")]


def untyped(source):
    return [node.name for node, parameters in functions_of(source)
            if node.returns is None or any(p.annotation is None for p in parameters)]


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_every_function_is_annotated(path):
    assert untyped(path.read_text(encoding="utf-8")) == []


def test_a_function_without_annotations_is_found():
    assert untyped("def a(self, b) -> int: ...") == ["a"]
    assert untyped("def a(*b: int): ...") == ["a"]
    assert untyped("def a(self, b: int) -> int: ...") == []


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()


def public_functions():
    for name in rl.__all__:
        thing = getattr(rl, name)
        if inspect.isfunction(thing):
            yield name, thing
        for part, held in vars(thing).items() if inspect.isclass(thing) else ():
            held = getattr(held, "fget", None) or getattr(held, "func", None) or held
            held = getattr(held, "__func__", held)
            if inspect.isfunction(held) and held.__module__.startswith("rl."):
                yield f"{name}.{part}", held


def test_annotations_name_what_is_there():
    """Annotations are read late, so a name that is missing fails nobody but a type checker."""
    found = list(public_functions())
    assert len(found) > 150
    for name, function in found:
        try:
            typing.get_type_hints(function)
        except (NameError, TypeError) as raised:
            # Python before 3.10 has no |, and a module that another one needs is known to checkers.
            assert "unsupported operand" in str(raised) or "Pipeline" in str(raised), name
