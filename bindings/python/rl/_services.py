"""What the services of a host have in common: objects whose methods librl calls on any thread."""
from __future__ import annotations

import ctypes
import errno
import threading
from typing import Any, Callable

from . import _raw
from ._handle import callback, interrupt_later
from ._hooks import hold


def bytes_at(address: int, size: int) -> memoryview:
    """Memory of librl."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


class Service:
    """Functions of a table of rl.h, which are methods of a subclass. What the host raises in one
    becomes a code, and the text that librl asks for at once."""

    def __init__(self, family: str, kinds: dict[str, str]) -> None:
        """The methods of `kinds` have the types FAMILY_KIND_fn."""
        self.last = threading.local()  # .text: of the last exception on this thread
        self.functions = {name: getattr(_raw, f"{family}_{kind}_fn")(getattr(self, name))
                          for name, kind in kinds.items()}

    def fill(self, table: Any) -> None:
        """Sets the functions of a table, which keeps this alive until librl ends its user_data."""
        for name, function in self.functions.items():
            setattr(table, name, ctypes.cast(function, ctypes.c_void_p).value)
        table.user_data, destroy = hold(self)
        table.destroy = ctypes.cast(destroy, ctypes.c_void_p).value

    def _run(self, work: Callable[[], None]) -> int:
        """Runs a method of the host's; the code that librl gets."""
        with callback():
            try:
                work()
                return 0
            except FileNotFoundError as raised:
                self.last.text = str(raised)
                return errno.ENOENT
            except BaseException as raised:
                self.last.text = f"{type(raised).__name__}: {raised}"
                if not isinstance(raised, Exception):
                    interrupt_later(raised)
                code = raised.errno if isinstance(raised, OSError) else None
                return code if code and code != errno.ENOENT else errno.EIO

    def describe(self, _: int, code: int, text: int, text_size: int) -> None:
        """Writes what a code means."""
        told = getattr(self.last, "text", "").encode("utf-8", "replace")[:text_size - 1]
        told = told.decode("utf-8", "ignore").encode("utf-8").replace(b"\0", b" ")
        ctypes.memmove(text, told + b"\0", len(told) + 1)
