"""Finds librl.so, loads it, refuses one of another version, and declares its functions. In this
order: the file that RL_LIBRARY names; the directory that `pkg-config --variable=libdir rl` says;
where the dynamic linker looks. Afterwards `lib` has every function of rl.h with its types."""
from __future__ import annotations

import ctypes
import os
import shutil
import subprocess

from . import _raw


class LibraryError(ImportError):
    """librl is not found, or is not the librl that this package is written for."""


def _by_pkg_config() -> str | None:
    """The library beside the rl.pc that pkg-config finds, if there is one."""
    program = shutil.which("pkg-config")
    if program is None:
        return None
    done = subprocess.run([program, "--variable=libdir", "rl"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    path = os.path.join(done.stdout.strip(), _raw.SONAME)
    return path if done.returncode == 0 and os.path.isfile(path) else None


def _place() -> str:
    return os.environ.get("RL_LIBRARY") or _by_pkg_config() or _raw.SONAME


def _serves(version: int) -> bool:
    """Whether a library of this version serves this package: before 1.0 a minor version may break
    the interface, from 1.0 on a later one only adds to it."""
    major, minor = version >> 16, version & 0xFFFF
    return major == _raw.ABI_MAJOR and (
        minor == _raw.ABI_MINOR or (major > 0 and minor > _raw.ABI_MINOR))


def _check_version(library: ctypes.CDLL, place: str) -> None:
    try:
        library.rl_abi_version.restype = ctypes.c_uint32
        version = library.rl_abi_version()
    except AttributeError:
        raise LibraryError(f"{place} is not librl: it has no rl_abi_version") from None
    if not _serves(version):
        raise LibraryError(
            f"this package is for librl {_raw.ABI_MAJOR}.{_raw.ABI_MINOR}, but {place} is librl "
            f"{version >> 16}.{version & 0xFFFF}")


def _declare(library: ctypes.CDLL, place: str) -> None:
    for name, (result, parameters) in _raw.FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise LibraryError(f"{place} lacks the function {name}") from None
        function.restype, function.argtypes = result, list(parameters.values())


def load() -> ctypes.CDLL:
    """The library, loaded and checked. Its functions release the interpreter's lock."""
    place = _place()
    try:
        library = ctypes.CDLL(place)
    except OSError as failure:
        raise LibraryError(
            f"librl cannot be loaded: {failure}. Install it, or name the file in RL_LIBRARY",
            name="rl", path=place) from None
    _check_version(library, place)
    _declare(library, place)
    return library


lib = load()
