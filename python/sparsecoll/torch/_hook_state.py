# SPDX-License-Identifier: Apache-2.0
"""What the states of hooks have in common: a thread, a communicator, and how they end."""
from .._errors import InvalidUsage
from ._worker import MOMENT


class HookState:
    """Made with _worker and _communicator None; its maker sets them once they are there."""

    def close(self) -> None:
        """Ends the thread and the communicator. May be repeated; the hook cannot be used any more.

        After an interrupt, or where a rank was lost, the process group may still be in a dense step, which nothing ends
        but the other ranks or the group's own deadline: then its threads end behind that."""
        worker, self._worker = self._worker, None
        if worker is None or worker.forked:  # in a forked process nothing of it is there that could end
            return
        self._abandon_step()
        failed = self.error is not None
        self.error = self.error or InvalidUsage("the state is closed")
        if failed:
            try:
                worker.call(self._end, MOMENT)
            finally:
                worker.close(MOMENT)
        else:
            worker.close()
            self._end()

    def _call(self, job):
        """What it returns on the thread. Errors: InvalidUsage (closed)."""
        if self._worker is None:
            raise InvalidUsage("the state is closed")
        try:
            return self._worker.call(job)
        except (KeyboardInterrupt, SystemExit) as error:
            self._interrupted(error)
            raise

    def _end(self):
        self._drop_reducers()
        self._communicator.close()
        self._leave_group()

    def _interrupted(self, error):
        """Makes an error of what was waited for, so that nothing waits for the rest of it."""

    def _abandon_step(self):
        """Makes an error of a step that has begun, so that nothing waits for the rest of it."""

    def _drop_reducers(self):
        raise NotImplementedError

    def _leave_group(self):
        """Of a process group that the state has made for itself."""

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self):
        if getattr(self, "_worker", None) is not None:
            self._worker.leave()
