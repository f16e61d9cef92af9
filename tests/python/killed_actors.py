"""Actors in processes that may be killed, as those of Ray: a call runs when its arguments are
there, and one that was lost with a process is done again in a new one, behind all others."""
import multiprocessing
import os
import queue
import signal
import threading
import time
from concurrent.futures import Future

SPAWN = multiprocessing.get_context("spawn")


def serve(pipe, kind, arguments):
    """The process of an actor."""
    served = kind(*arguments)
    while True:
        name, given = pipe.recv()
        try:
            pipe.send((True, getattr(served, name)(*given)))
        except Exception as error:
            pipe.send((False, error))


class Actor:
    """actor.method.remote(...) returns a future; with options(num_returns=N) N of them."""

    def __init__(self, kind, *arguments):
        self.kind, self.arguments, self.calls = kind, arguments, queue.SimpleQueue()
        self.launches = 0
        self.launch()
        threading.Thread(target=self.work, daemon=True).start()

    def launch(self):
        self.pipe, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=serve, args=(theirs, self.kind, self.arguments),
                                     daemon=True)
        self.process.start()
        theirs.close()
        self.launches += 1

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)

    def __getattr__(self, name):
        return Method(self, name)

    def submit(self, name, given, futures):
        values = [value.result() if isinstance(value, Future) else value for value in given]
        self.calls.put((name, values, futures))

    def work(self):
        while call := self.calls.get():
            name, values, futures = call
            try:
                self.pipe.send((name, values))
                good, result = self.pipe.recv()
            except (EOFError, OSError):
                self.process.join()
                self.launch()
                time.sleep(0.2)  # calls that were not waiting for this one come before it
                self.calls.put(call)
                continue
            results = result if good and len(futures) > 1 else [result] * len(futures)
            for future, value in zip(futures, results):
                future.set_result(value) if good else future.set_exception(value)


class Method:
    def __init__(self, actor, name, num_returns=1):
        self.actor, self.name, self.num_returns = actor, name, num_returns

    def options(self, num_returns):
        return Method(self.actor, self.name, num_returns)

    def remote(self, *given):
        futures = [Future() for _ in range(self.num_returns)]
        threading.Thread(target=self.actor.submit, args=(self.name, given, futures),
                         daemon=True).start()
        return futures if len(futures) > 1 else futures[0]
