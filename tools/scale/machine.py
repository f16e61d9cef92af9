"""What a machine does in a second, for one rank: limits, and what of them is reached."""
import json
import pathlib
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
# Of the benchmarks, by which what librl reaches of a limit is known.
TRAIN, DECODE, UPDATE = "train_8x512", "decode_b64", "optimizer_step"


class Link(NamedTuple):
    latency_s: float
    bytes_per_s: float  # that a rank sends


class Machine(NamedTuple):
    name: str
    matmul_flops: float      # reached by products of training
    read_bytes_per_s: float  # reached by decode
    update_bytes_per_s: float  # read or written by the optimizer
    memory_bytes: float
    ranks_per_node: int
    node: Link
    network: Link

    def divided(self, ranks):
        """For each of so many ranks that share one machine's cores."""
        return self._replace(matmul_flops=self.matmul_flops / ranks,
                             read_bytes_per_s=self.read_bytes_per_s / ranks,
                             update_bytes_per_s=self.update_bytes_per_s / ranks)

    @classmethod
    def of(cls, peaks, fractions):
        """Published peaks, such as machines/h100.json, and the fractions that are reached."""
        return cls(peaks["name"], peaks["matmul_flops"] * fractions[TRAIN],
                   peaks["read_bytes_per_s"] * fractions[DECODE],
                   peaks["read_bytes_per_s"] * fractions[UPDATE], peaks["memory_bytes"],
                   peaks["ranks_per_node"], Link(**peaks["node"]), Link(**peaks["network"]))


def measured_fractions(path):
    """Of out/bench.json, which scripts/bench.sh writes."""
    return fractions_of(path, {name: "fraction" for name in (TRAIN, DECODE)} | {UPDATE: "value"})


def assured_fractions():
    """The least of bench/floors.json, which a benchmark has to reach."""
    return fractions_of(HERE.parents[1] / "bench/floors.json",
                        {TRAIN: "least_fraction", DECODE: "least_fraction", UPDATE: "above"})


def fractions_of(path, keys):
    figures = read(path)
    found = {}
    for name, key in keys.items():
        if not isinstance(figures.get(name), dict) or key not in figures[name]:
            raise ValueError(f"{path} has no {name}.{key}")
        if not 0 < figures[name][key] <= 1:
            raise ValueError(f"{path}: {name}.{key} is {figures[name][key]}, not in (0, 1]")
        found[name] = figures[name][key]
    return found


def read_peaks(path):
    """A file as machines/h100.json; a file of rl_probe fills in what it has."""
    peaks = read(path)
    probe = peaks.pop("probe", None)
    if probe is not None:
        measured = read(pathlib.Path(path).parent / probe)
        peaks = {"matmul_flops": measured["matmul_flops"],
                 "read_bytes_per_s": measured["read_bytes_per_s"], **peaks}
    wanted = {"name", "matmul_flops", "read_bytes_per_s", "memory_bytes", "ranks_per_node", "node",
              "network"}
    if wanted - peaks.keys():
        raise ValueError(f"{path} has no {', '.join(sorted(wanted - peaks.keys()))}")
    for name in ("matmul_flops", "read_bytes_per_s", "memory_bytes", "ranks_per_node"):
        if not peaks[name] > 0:
            raise ValueError(f"{path}: {name} is {peaks[name]}, not above 0")
    return peaks


def read(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
