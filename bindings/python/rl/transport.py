"""How ranks of a host exchange what they share (comm.backend = host)."""
from __future__ import annotations

import abc
import ctypes
from typing import Any, NamedTuple

from . import _raw
from ._record import text_at
from ._services import Service, bytes_at


class Message(NamedTuple):
    """A message of an exchange. The memory is librl's, and valid during the exchange."""

    rank: int  # the other end
    data: memoryview  # what to send, read-only, or to fill as a whole


class LostRank(Exception):
    """Raised by Transport.exchange if a rank has failed, has left or does not come."""

    def __init__(self, rank: int, why: str = "") -> None:
        super().__init__(why or f"rank {rank} is lost")
        self.rank = rank


class Transport(abc.ABC):
    """Messages between the ranks of a run, for Runtime(options, transport=...) with comm.backend =
    host: by MPI or whatever the host has. Each rank is a runtime with a transport of its own. librl
    calls it on any thread, several at once, and it may call nothing of librl. What exchange raises
    ends the run of all ranks as Code.RANK_LOST, with its text; LostRank names the rank. What
    abandon raises is ignored."""

    rank: int  # of this runtime, from 0
    num_ranks: int

    @abc.abstractmethod
    def exchange(self, channel: int, sends: list[Message], receives: list[Message],
                 timeout_s: float | None) -> None:
        """Sends messages and fills those to receive, at most one to and one from each other rank.
        Messages of different channels never meet; between two ranks on a channel they keep their
        order. Calls at the same time have channels of their own."""

    @abc.abstractmethod
    def abandon(self, rank: int, why: str) -> None:
        """The ranks cannot go on because of a rank, which may be this one: exchanges that run or
        come later, on all ranks, raise LostRank of it. Called at most once."""


class _Adapter(Service):
    """The functions of an rl_transport for a Transport."""

    def __init__(self, transport: Transport) -> None:
        super().__init__("rl", _FUNCTIONS)
        self.transport = transport

    def exchange(self, _: int, place: Any) -> int:
        e = place.contents

        def work() -> None:
            sends = [Message(m.rank, m.data.toreadonly())
                     for m in _messages(e.num_out, e.out_ranks, e.out_data, e.out_sizes)]
            receives = _messages(e.num_in, e.in_ranks, e.in_data, e.in_sizes)
            timeout_s = e.timeout_ns / 1e9 if e.timeout_ns >= 0 else None
            try:
                self.transport.exchange(e.channel, sends, receives, timeout_s)
            except LostRank as lost:
                e.lost_rank = lost.rank
                raise
            ctypes.memmove(e.received, e.in_sizes, e.num_in * ctypes.sizeof(ctypes.c_uint64))
        return self._run(work)

    def abandon(self, _: int, rank: int, why: int, size: int) -> None:
        self._run(lambda: self.transport.abandon(rank, text_at(why, size)))


# The methods of an adapter, in the order of the fields of rl_transport, with their types.
_FUNCTIONS = {"exchange": "exchange", "abandon": "abandon", "describe": "transport_describe"}


def _messages(count: int, ranks: int, data: int, sizes: int) -> list[Message]:
    if count == 0:
        return []
    all_ranks = (ctypes.c_uint32 * count).from_address(ranks)
    all_data = (ctypes.c_void_p * count).from_address(data)
    all_sizes = (ctypes.c_uint64 * count).from_address(sizes)
    return [Message(rank, bytes_at(address, size))
            for rank, address, size in zip(all_ranks, all_data, all_sizes)]


def transport_table(host: Any, transport: Transport) -> tuple[Service, Any]:
    """Sets the transport of an rl_host: its functions, and the table to fill with them."""
    table = _raw.rl_transport()
    table.rank, table.num_ranks = transport.rank, transport.num_ranks
    host.transport = ctypes.addressof(table)
    return _Adapter(transport), table
