#!/usr/bin/env python3
"""examples/deploy/redis_store.c between two processes that are killed, with a server of its own.

usage: redis_processes.py PROGRAM MODEL DIRECTORY KILLS

The environment variable RL_REDIS_SERVER names a redis-server that is not in the path.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77


def main():
    program, model, directory, kills = sys.argv[1:]
    server = os.environ.get("RL_REDIS_SERVER") or shutil.which("redis-server")
    if not server:
        print("skipped: external: redis-server is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory() as data:
        socket = pathlib.Path(data) / "redis.sock"
        process = subprocess.Popen(
            [server, "--port", "0", "--unixsocket", socket, "--dir", data, "--save", "",
             "--appendonly", "yes", "--appendfsync", "always"], stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 20
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{server} does not start")
                time.sleep(0.01)
            return subprocess.run([program, model, directory, kills, "1"],
                                  env={**os.environ, "RL_REDIS_SOCKET": socket}).returncode
        finally:
            process.terminate()
            process.wait()


sys.exit(main())
