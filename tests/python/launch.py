"""Starts ranks as processes of a script, as a launcher would, and collects how they ended."""
import functools
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile


def free_port():
    """A port with room behind it: communicators meet at one of the ports that follow it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return min(probe.getsockname()[1], 65000)


def threads_and_descriptors():
    """How many of each this process has."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


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


def finish(processes, timeout=120):
    """[(exit status, output)] of the processes; none is left over."""
    try:
        return [(process.returncode, output) for process in processes
                for output, _ in [process.communicate(timeout=timeout)]]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


def fork(function, ranks, timeout=120):
    """[(exit status, output)] of processes that run `function`, one a rank. They have what is imported here, which
    costs seconds of a processor each otherwise; so nothing may have run here that a process cannot inherit."""
    port, outputs, processes = free_port(), [tempfile.TemporaryFile() for _ in range(ranks)], []

    def run(rank):
        for descriptor in (1, 2):
            os.dup2(outputs[rank].fileno(), descriptor)
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        function()

    try:
        for rank in range(ranks):
            processes.append(multiprocessing.get_context("fork").Process(target=run, args=(rank,)))
            processes[-1].start()
        for process in processes:
            process.join(timeout)
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
