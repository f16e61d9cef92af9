"""Where librl is looked for, and which one is refused."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import rl
from conftest import ROOT
from rl import _library, _raw

HELLO = "import rl; print(rl.version())"


def python(code, **environment):
    """Runs a program in an environment that differs in these; None removes a variable."""
    given = {**os.environ, **environment}
    given = {name: str(value) for name, value in given.items() if value is not None}
    return subprocess.run([sys.executable, "-c", code], env=given, text=True, capture_output=True)


def built(directory, name, source):
    """A shared library of this C source."""
    path = directory / name
    subprocess.run([os.environ.get("RL_CC", "cc"), "-shared", "-fPIC", "-x", "c", "-", "-o", path],
                   input=source, text=True, check=True)
    return path


def library_file():
    place = os.environ.get("RL_LIBRARY")
    if not place:
        pytest.skip("RL_LIBRARY is not set")
    return pathlib.Path(place).resolve()


@pytest.mark.parametrize("major, minor", [
    (_raw.ABI_MAJOR, _raw.ABI_MINOR + 1), (_raw.ABI_MAJOR, _raw.ABI_MINOR - 1),
    (_raw.ABI_MAJOR + 1, _raw.ABI_MINOR), (_raw.ABI_MAJOR + 1, 0)])
def test_a_library_of_another_version_is_refused_with_both_versions(tmp_path, major, minor):
    if _raw.ABI_MAJOR > 0 and (major, minor) == (_raw.ABI_MAJOR, _raw.ABI_MINOR + 1):
        return  # from 1.0 on it serves, as the next test says
    source = f"unsigned rl_abi_version(void) {{ return {major} << 16 | {minor}; }}"
    other = built(tmp_path, "librl.so", source)
    done = python(HELLO, RL_LIBRARY=other)
    assert done.returncode != 0 and "LibraryError" in done.stderr
    assert (f"this package is for librl {_raw.ABI_MAJOR}.{_raw.ABI_MINOR}, but {other} is librl "
            f"{major}.{minor}") in done.stderr


def test_from_1_0_on_a_later_minor_version_serves(monkeypatch):
    monkeypatch.setattr(_raw, "ABI_MAJOR", 1)
    monkeypatch.setattr(_raw, "ABI_MINOR", 2)
    serving = [(1, 2), (1, 3)]
    for version in [(0, 2), (1, 1), (1, 2), (1, 3), (2, 2)]:
        assert _library._serves(version[0] << 16 | version[1]) == (version in serving)


def test_what_is_not_librl_is_refused(tmp_path):
    done = python(HELLO, RL_LIBRARY=built(tmp_path, "other.so", "int other;"))
    assert done.returncode != 0 and "other.so is not librl" in done.stderr
    done = python(HELLO, RL_LIBRARY=tmp_path / "nothing.so")
    assert done.returncode != 0 and "nothing.so" in done.stderr and "RL_LIBRARY" in done.stderr
    version = f"unsigned rl_abi_version(void) {{ return {_raw.ABI_VERSION}; }}"
    done = python(HELLO, RL_LIBRARY=built(tmp_path, "part.so", version))
    assert done.returncode != 0 and "part.so lacks the function rl_" in done.stderr


def test_librl_is_found_by_pkg_config(tmp_path):
    if shutil.which("pkg-config") is None:
        pytest.skip("there is no pkg-config")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / _raw.SONAME).symlink_to(library_file())
    (tmp_path / "rl.pc").write_text("prefix=${pcfiledir}\nlibdir=${prefix}/lib\nName: rl\n"
                                    "Description: librl\nVersion: 0\n", encoding="utf-8")
    code = "import rl._library; print(rl._library.lib._name)"
    done = python(code, RL_LIBRARY=None, PKG_CONFIG_PATH=tmp_path)
    assert done.stdout.strip() == str(tmp_path / "lib" / _raw.SONAME), done.stderr


def test_librl_is_found_by_the_dynamic_linker(tmp_path):
    (tmp_path / _raw.SONAME).symlink_to(library_file())
    nowhere = {"RL_LIBRARY": None, "PKG_CONFIG_PATH": None, "PKG_CONFIG_LIBDIR": tmp_path}
    done = python(HELLO, LD_LIBRARY_PATH=tmp_path, **nowhere)
    assert done.stdout.strip() == rl.version(), done.stderr


def test_the_library_says_what_it_is():
    assert rl.abi_version() == (_raw.ABI_MAJOR, _raw.ABI_MINOR)
    assert rl.build_info()["version"] == rl.version()
    project = (ROOT / "bindings/python/pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{rl.version()}"\n' in project
    found = {feature.name: feature for feature in rl.features()}
    assert found["cpu"].available and not found["cpu"].reason
    assert all(feature.available != bool(feature.reason) for feature in found.values())
    assert rl.feature("cpu") == found["cpu"]


def test_a_wheel_has_the_package_and_its_types(tmp_path):
    source = tmp_path / "source"
    here = pathlib.Path(rl.__file__).resolve().parents[1]
    if not (here / "pyproject.toml").is_file():
        pytest.skip("the package is not in its source directory")
    tools = ("from importlib.metadata import version; version('pip'), version('wheel'); "
             "assert int(version('setuptools').split('.')[0]) >= 61")
    if subprocess.run([sys.executable, "-c", tools], capture_output=True).returncode:
        pytest.skip("there are no pip, wheel and setuptools 61")
    shutil.copytree(here, source, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index",
                    "--no-build-isolation", "--wheel-dir", tmp_path, source], check=True,
                   env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    wheel, = tmp_path.glob("rl-*-py3-none-any.whl")
    shutil.unpack_archive(wheel, tmp_path / "unpacked", "zip")
    files = {path.name for path in (tmp_path / "unpacked/rl").iterdir()}
    assert files == {path.name for path in (here / "rl").iterdir()} - {"__pycache__"}
    assert "py.typed" in files
    done = python(HELLO, PYTHONPATH=tmp_path / "unpacked")
    assert done.stdout.strip() == rl.version(), done.stderr
