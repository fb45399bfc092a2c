# SPDX-License-Identifier: Apache-2.0
"""A thread that does jobs in their order."""
import atexit
import os
import queue
import threading

MOMENT = 2.0  # seconds

_left = set()  # threads that nobody waits for, until they have ended


def _serve(jobs):
    while True:
        job = jobs.get()
        if job is None:
            return
        job()
        job = None  # it may hold what is to end while this waits


class Worker:
    """Jobs are callables that raise nothing. The thread holds no reference to its owner."""

    def __init__(self, name):
        self._jobs = queue.SimpleQueue()
        self._process = os.getpid()
        self._thread = threading.Thread(target=_serve, args=(self._jobs,), name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self):
        return self._thread.is_alive()

    @property
    def forked(self):
        """Whether this process was forked from the one that has the thread."""
        return os.getpid() != self._process

    def post(self, job):
        self._jobs.put(job)

    def call(self, job, timeout=None):
        """Does it behind all that was posted, and returns what it returned or raises what it raised; None where so many
        seconds do not suffice, and it is still to be done."""
        done, outcome = threading.Event(), []

        def run():
            try:
                outcome.extend((job(), None))
            except BaseException as error:  # pylint: disable=broad-except  (it is raised again on the caller's thread)
                outcome.extend((None, error))
            done.set()

        if threading.current_thread() is self._thread or not self._thread.is_alive():
            return job()
        self.post(run)
        if not done.wait(timeout):
            return None
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    def leave(self):
        """Ends behind all that was posted, and nobody waits for it but the end of the process."""
        self.post(None)
        _left.difference_update([thread for thread in list(_left) if not thread.is_alive()])
        _left.add(self._thread)

    def close(self, timeout=None):
        """Ends behind all that was posted, for which it waits, at most so many seconds. May be repeated."""
        self.post(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)


@atexit.register
def _await():
    """A thread that is still within PyTorch while Python ends, as the last one that has a process group, aborts the
    process."""
    while _left:  # others may still come
        _left.pop().join(MOMENT)
