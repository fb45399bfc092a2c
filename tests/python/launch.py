"""Starts ranks as processes of a script, as a launcher would, and collects how they ended."""
import os
import socket
import subprocess
import sys


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
    return [subprocess.Popen([sys.executable, script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, env={**os.environ, **place, "RANK": str(rank)}) for rank in range(ranks)]


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
