"""Which rank of a run this process is, where a launcher has started one process for each: torchrun,
Slurm, MPI, Kubernetes or Ray. Each tells its processes by environment variables. librl reads none;
a host does, checks what it finds, and sets comm.rank and comm.rendezvous. docs/parallel.md lists
the variables."""
import os
import re
from typing import NamedTuple

# Of two rows for one launcher the first that has a variable set counts.
ROWS = [("torchrun", "RANK", "WORLD_SIZE"),
        ("slurm", "SLURM_PROCID", "SLURM_NTASKS"),
        ("mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("mpi", "PMI_RANK", "PMI_SIZE"),
        ("kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE"),
        ("ray", "RANK", "WORLD_SIZE")]


class Place(NamedTuple):
    rank: int = 0
    ranks: int = 1
    rendezvous: str = ""  # comm.rendezvous; "" for a single rank


def text_of(name):
    text = os.environ.get(name)
    if not text:
        raise ValueError(f"{name} is not set")
    return text


def number_of(name):
    text = text_of(name)
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError(f'{name} is "{text[:100]}", not a number')
    return int(text)


def master():
    """Where the ranks meet if nobody says otherwise. MASTER_PORT itself is torchrun's."""
    host, port = text_of("MASTER_ADDR"), number_of("MASTER_PORT")
    if not 1 <= port <= 65534:
        raise ValueError(f"MASTER_PORT is {port}, not 1 to 65534")
    return f"tcp:{host}:{port + 1}"


def place_of_launcher(launcher, meeting=None):
    """The place that a launcher has given this process. ValueError says what is wrong."""
    rows = [names for name, *names in ROWS if name == launcher]
    if not rows:
        raise ValueError("it is none of torchrun, slurm, mpi, kubernetes and ray")
    names = next((row for row in rows if any(name in os.environ for name in row)), rows[0])
    rank, ranks = map(number_of, names)
    if rank >= ranks:
        raise ValueError(f"{names[0]} is {rank}, but {names[1]} is {ranks}")
    return Place(rank, ranks, "" if ranks == 1 else meeting or master())
