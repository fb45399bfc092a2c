"""Starts ranks as processes of a script, as a launcher would, and collects how they ended."""
import functools
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

_PORTS = range(10000, 20000, 17)  # what ranks are told; communicators meet at one of the 16 behind it
_HANGS = 500  # seconds: whoever takes so long hangs, however busy the machine is
_claims = []  # on ports, as long as this process lives


def free_port():
    """A port that is free with those behind it. No other test chooses it, and it is below those that kernels hand out,
    as they would to any process until rank 0 listens."""
    why = None
    for first in random.sample(_PORTS, len(_PORTS)):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0sparsecoll-test-port-{first}")
            for port in range(first, first + _PORTS.step):
                with socket.socket() as probe:
                    probe.bind(("", port))
        except OSError as error:
            claim.close()
            why = error
            continue
        _claims.append(claim)
        return first
    raise OSError(f"no port is free: {why}")


def threads_and_descriptors():
    """How many of each this process has."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def assert_no_more_than(before):
    """Threads and descriptors. A thread that was joined counts until the kernel has taken it away, which on a busy
    machine may be later."""
    end = time.monotonic() + 60
    while any(now > then for now, then in zip(threads_and_descriptors(), before)):
        assert time.monotonic() < end, f"threads and descriptors: {before}, now {threads_and_descriptors()}"
        time.sleep(0.01)


def start(script, arguments, ranks, port=None, **environment):
    """Processes of `script arguments...`, one a rank."""
    port = port or free_port()
    place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
             **environment}
    # What a shell runs in the background ignores Ctrl-C, and so would all that it starts.
    heeded = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return [subprocess.Popen([sys.executable, script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, preexec_fn=heeded, env={**os.environ, **place, "RANK": str(rank)})
            for rank in range(ranks)]


def finish(processes, timeout=_HANGS):
    """[(exit status, output)] of the processes; one that takes longer is killed, and none is left over."""
    end, results = time.monotonic() + timeout, []
    try:
        for process in processes:
            try:
                output, _ = process.communicate(timeout=max(end - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                output = f"{process.communicate()[0]}killed, since it had not ended after {timeout} s\n"
            results.append((process.returncode, output))
        return results
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


def fork(function, ranks):
    """[(exit status, output)] of processes that run `function`, one a rank. They have what is imported here, which
    costs seconds of a processor each otherwise; so nothing may have run here that a process cannot inherit."""
    port, outputs, processes = free_port(), [tempfile.TemporaryFile() for _ in range(ranks)], []

    def run(rank):
        for descriptor in (1, 2):
            os.dup2(outputs[rank].fileno(), descriptor)
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        function()

    end = time.monotonic() + _HANGS
    try:
        for rank in range(ranks):
            processes.append(multiprocessing.get_context("fork").Process(target=run, args=(rank,)))
            processes[-1].start()
        for process in processes:
            process.join(max(end - time.monotonic(), 0))
        results = []
        for process, output in zip(processes, outputs):
            output.seek(0)
            results.append((process.exitcode, output.read().decode(errors="replace")))
        return results
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
                process.join()
        for output in outputs:
            output.close()
