"""The library's test programs that need no device, and how one of their tests is run."""
import concurrent.futures
import json
import os
import re
import resource
import signal
import subprocess
import time

FOLDERS = ["src", "core", "selectors", "collectives", "transports", "host"]
ONLY_WITH_DEVICES = {"src/device_vectors.cpp", "src/sum_check.cpp"}  # no test without a device comes there
# Neither a device nor an emulation of one, nor what is not the library.
TARGETS = ("(?!cmake_|simt_|nccl_|device_|torch_|trainer_|training_|images_|npy_|bench_)[a-z0-9_]+_test|"
           "fuzz_(blob|bootstrap|envelope|frame)|sparsecoll-(flight|run)|launched")
CMAKE = ["-DSPARSECOLL_WITH_CUDA=OFF", "-DSPARSECOLL_WITH_TORCH=OFF", "-DSPARSECOLL_WITH_MPI=OFF",
         "-DSPARSECOLL_BUILD_BENCH=OFF", "-DSPARSECOLL_WERROR=OFF"]
SKIPPED = 77
MOST_MEMORY = 12 << 30


class Test:
    def __init__(self, entry):
        self.name, self.command = entry["name"], entry["command"]
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        self.folder = properties.get("WORKING_DIRECTORY")
        self.environment = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))

    def run(self, seconds, nice, **environment):
        """The exit status, or None after a timeout; and how long it took. Takes what it started with it."""
        def prepare():
            os.nice(nice)
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        begin = time.monotonic()
        process = subprocess.Popen(self.command, cwd=self.folder, env={**os.environ, **self.environment, **environment},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True, preexec_fn=prepare)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        return status, time.monotonic() - begin



def targets(build, wanted):
    """The names of the wanted programs among those that can be built."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, capture_output=True,
                            text=True).stdout
    return [name for name in re.findall(r"^(\S+): phony$", listed, re.M) if re.fullmatch(wanted, name)]


def linked_with(build, library, wanted):
    """The names of wanted programs that an earlier build has, and that link the shared library there."""
    found = [path for path in (build / "bin").iterdir() if re.fullmatch(wanted, path.name)]
    return [path.name for path in sorted(found)
            if library in subprocess.run(["objdump", "-p", path], capture_output=True, text=True).stdout]


def tests_of(build, names):
    """What ctest runs of these programs."""
    listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, capture_output=True, text=True)
    programs = {str(build / "bin" / name) for name in names}
    return [Test(entry) for entry in json.loads(listed.stdout)["tests"] if programs.intersection(entry.get("command", []))]


def at_once(jobs, work, things):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(work, thing) for thing in things]):
            yield future.result()
