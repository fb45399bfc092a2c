"""Programs that are run with limits. Nothing here waits for a program longer than it has been given."""

import os
import signal
import subprocess
import time

MOST_OUTPUT = 1 << 28


class Run:
    """A program in a process group of its own, with its output in a file, that gets `limit` seconds and, after a polite
    signal, `grace` more. begin is called in its process, before it is the program."""

    def __init__(self, words, limit, grace, output, environment=None, begin=None):
        self.began = time.monotonic()
        self.limit, self.grace, self.output = limit, grace, output
        self.timed_out = self.too_much = self.given_up = False
        with open(output, "wb") as file:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                            env=environment, start_new_session=True, preexec_fn=begin)

    def seconds(self):
        return time.monotonic() - self.began

    def over(self):
        """Whether it has ended, or is left behind because not even SIGKILL ends it."""
        if self.process.poll() is not None:
            end_group(self.process.pid)  # what it may have left running
            return True
        if os.path.getsize(self.output) > MOST_OUTPUT:
            self.too_much = True
            end_group(self.process.pid)
        late = self.seconds() - self.limit
        if late > 0:
            self.timed_out = True
            end_group(self.process.pid, signal.SIGTERM if late < self.grace else signal.SIGKILL)
        self.given_up = late > 2 * self.grace
        return self.given_up

    def outcome(self):
        """"" for a good end, or what was bad about it."""
        code = self.process.returncode
        if self.given_up:
            return f"timeout after {self.limit:.0f} s, and SIGKILL does not end it"
        if self.timed_out:
            return f"timeout after {self.limit:.0f} s"
        if self.too_much:
            return f"more than {MOST_OUTPUT} bytes of output"
        if code < 0:
            return signal.Signals(-code).name
        return f"exit status {code}" if code else ""


def end_group(group, how=signal.SIGKILL):
    try:
        os.killpg(group, how)
    except (ProcessLookupError, PermissionError):
        pass


def ask(words, limit, grace, path):
    """(what was bad, what it printed) of a program; path: a file to use."""
    try:
        run = Run(words, limit, grace, path)
    except OSError as error:
        return f"{words[0]}: {error.strerror}", ""
    while not run.over():
        time.sleep(0.01)
    with open(path, encoding="utf-8", errors="replace") as file:
        return run.outcome(), file.read().strip()
