"""Two processes train one model, as tests/abi/two_processes.c does: groups of samples go through a
pipe as bytes, weights come back as tensors, and all end with the digest of one process."""
import os
import pathlib
import subprocess
import sys

from conftest import MODEL

HOST = pathlib.Path(__file__).with_name("two_process_host.py")


def start(role, *ends):
    """A process with two ends of pipes."""
    return subprocess.Popen([sys.executable, HOST, role, MODEL, *map(str, ends)], pass_fds=ends,
                            stdout=subprocess.PIPE, text=True)


def digest_of(process):
    output, _ = process.communicate(timeout=250)
    assert process.returncode == 0
    return int(output)


def test_two_processes_end_with_the_digest_of_one():
    groups, weights = os.pipe(), os.pipe()
    sampler = start("sampler", weights[0], groups[1])
    trainer = start("trainer", groups[0], weights[1])
    for end in (*groups, *weights):
        os.close(end)
    alone = start("alone")
    digests = [digest_of(process) for process in (sampler, trainer, alone)]
    assert digests[0] == digests[1] == digests[2]
