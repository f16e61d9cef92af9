"""The generated layer against the C compiler and the library: structs, constants, prototypes."""
import ctypes
import os
import re
import subprocess
import sys

import pytest

import rl
from conftest import ROOT
from rl import _raw, constants

sys.path.insert(0, str(ROOT / "tools"))
import gen_python  # noqa: E402

STRUCTS = {name: cls for name, cls in vars(_raw).items()
           if isinstance(cls, type) and issubclass(cls, _raw.Struct) and cls is not _raw.Struct}
PLAIN = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint32_t": ctypes.c_uint32,
         "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t, "float": ctypes.c_float,
         "double": ctypes.c_double, "rl_status": ctypes.c_int32}
C_TYPES = {kind: name for name, kind in reversed(PLAIN.items())}


def compiles(lines):
    """Whether the C compiler takes these lines after rl.h, and what it says."""
    command = [os.environ.get("RL_CC", "cc"), "-std=c11", "-Werror", "-fsyntax-only", "-I",
               str(ROOT / "include"), "-x", "c", "-"]
    text = "\n".join(["#include <stddef.h>", '#include "rl.h"', *lines]) + "\n"
    done = subprocess.run(command, input=text, text=True, capture_output=True)
    return done.returncode == 0, done.stderr


def struct_lines():
    for name, cls in STRUCTS.items():
        yield f'_Static_assert(sizeof({name}) == {ctypes.sizeof(cls)}, "{name}");'
        for field, *_ in cls._fields_:
            where, place = f"{name}.{field}", getattr(cls, field)
            yield f'_Static_assert(offsetof({name}, {field}) == {place.offset}, "{where}");'
            yield f'_Static_assert(sizeof((({name}*)0)->{field}) == {place.size}, "{where}");'


def kind_test(expression, kind):
    """A C expression that is true if the type of another has the class and size of a ctypes
    type: a pointer, a floating-point number, or an integer with or without a sign."""
    if kind in C_TYPES:
        return f"_Generic(({expression}), {C_TYPES[kind]}: 1, default: 0)"
    numbers = ", ".join(f"{name}: 0" for name in
                        ("int8_t", "uint8_t", "int32_t", "uint32_t", "int64_t", "uint64_t",
                         "float", "double"))
    return f"_Generic(({expression}), {numbers}, default: 1)"


def function_lines():
    """A call of each function with a variable of the C type that stands for each parameter."""
    for name, (result, parameters) in _raw.FUNCTIONS.items():
        words = ", ".join(f"({C_TYPES.get(kind, 'void*')})0" if kind in C_TYPES else "0"
                          for kind in parameters.values())
        called = f"{name}({words})"
        if result is None:
            yield f"void check_{name}(void) {{ {called}; }}"
        else:
            yield f'_Static_assert({kind_test(called, result)}, "{name}");'


def test_structs_are_laid_out_as_the_compiler_lays_them_out():
    lines = list(struct_lines())
    good, said = compiles(lines)
    assert good and len(STRUCTS) >= 14 and len(lines) > 400, said
    wrong = lines[0].replace(" == ", " == 8 + ")
    assert not compiles([wrong])[0]  # the compiler does look


def test_functions_have_as_many_parameters_and_the_results_of_the_header():
    good, said = compiles(function_lines())
    assert good and len(_raw.FUNCTIONS) > 150, said


def test_every_function_of_the_header_is_declared_with_its_types():
    text = re.sub(r"/\*.*?\*/", " ", (ROOT / "include/rl.h").read_text(), flags=re.S)
    found = re.findall(r"RL_API ([^;(]*?)(rl_\w+)\(([^;]*)\);", text)
    assert {name for _, name, _ in found} == set(_raw.FUNCTIONS)
    for _, name, words in found:
        given = [word for word in words.split(",") if word.strip() != "void"]
        assert len(given) == len(_raw.FUNCTIONS[name][1])
        for word, (parameter, kind) in zip(given, _raw.FUNCTIONS[name][1].items()):
            c_type, c_name = re.fullmatch(r"\s*(.*?)\s*(\w+)\s*", word, re.S).groups()
            assert c_name == parameter
            if "*" in c_type:
                assert ctypes.sizeof(kind) == ctypes.sizeof(ctypes.c_void_p), name
            else:
                assert kind is PLAIN.get(c_type) or kind is getattr(_raw, c_type), (name, c_name)


def test_constants_are_those_of_the_header_and_of_the_library():
    text = re.sub(r"/\*.*?\*/", " ", (ROOT / "include/rl.h").read_text(), flags=re.S)
    named = re.findall(r"\b(RL_[A-Z0-9_]+) =", text)
    named += re.findall(r"#define (RL_[A-Z0-9_]+) UINT64_C", text)
    seen = set()
    for kind, prefix, *_ in gen_python.groups():
        for name, member in getattr(constants, kind).__members__.items():
            if not re.fullmatch(r"UNKNOWN_\d+", name):
                seen.add(prefix + name)
                assert rl.constant(prefix + name) == member, (kind, name)
    assert named and seen == set(named)
    assert rl.constant("RL_ABI_VERSION") == _raw.ABI_VERSION
    assert {code.name for code in rl.RESULTS} == {
        "OK", "TIMEOUT", "DONE", "INTERRUPTED", "WOULD_BLOCK", "IDLE", "PAUSED"}


def test_samples_and_tokens_of_the_host_have_every_field_of_their_structs():
    computed = {"struct_size", "num_ids", "tag_len", "num_reward_parts", "prompt_text", "text",
                "prompt_text_len", "text_len"}
    fields = {name for name, *_ in _raw.rl_sample_view._fields_}
    assert fields - computed == set(rl.Sample.__dataclass_fields__)
    fields = {name for name, *_ in _raw.rl_algo_tokens._fields_}
    assert fields - {"struct_size", "num_sequences", "num_tokens"} == set(
        rl.Tokens.__dataclass_fields__)
    views = set(rl.SampleView.__dataclass_fields__) | set(vars(rl.SampleView))
    assert set(_raw.ARRAYS["rl_sample_view"]) <= views


def test_a_wrong_number_of_arguments_never_reaches_the_library():
    from rl import _handle
    with pytest.raises(TypeError, match="rl_options_clone takes 3 arguments"):
        _handle.call("rl_options_clone", None)
