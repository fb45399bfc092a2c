"""One of the five commands: a worker runs its items, and whoever started the worker ends it in time and archives."""

import dataclasses
import datetime
import fnmatch
import glob
import json
import multiprocessing
import os
import re
import shutil
import signal
import site
import sys
import tempfile
import time

from gpu_half_hour import processes, table
from gpu_half_hour.records import Records, bad

UNFIT = 2  # exit status where there is no device, or nothing to run
SKIPPED = 77
NOTHING_RAN = re.compile("No test cases matched|No tests ran|No kernels were profiled")
LENGTH = re.compile(r"[0-9]{7,}$")
SHORTEST = 2048
ARCHIVED_EVERY = 30
DEVICE = ("nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader")
FACTS = {  # for machine.txt
    "nvcc": ("nvcc", "--version"), "ncu": ("ncu", "--version"), "glibc": ("ldd", "--version"),
    "kernel": ("uname", "-sr"), "processors": ("nproc",), "python": (sys.executable, "--version"),
}


class Unfit(Exception):
    pass


class Clock:
    """A command's budget. All seconds are scaled, for tests."""

    def __init__(self, budget, scale):
        self.began, self.scale, self.budget = time.monotonic(), scale, budget * scale
        self.grace = 5 * scale  # between SIGTERM and SIGKILL, and before a process is left behind
        self.reserve = 5 * scale  # to archive in

    def seconds(self):
        return time.monotonic() - self.began

    def cut_in(self):
        """Seconds until the worker is ended."""
        return self.budget - self.reserve - self.seconds()

    def left(self):
        """Seconds that an item may take, so that its worker ends before it is ended."""
        return self.cut_in() - self.reserve - 2 * self.grace


def environment():
    """Kernels are loaded at once: loading one later waits for the device, and so for streams that wait for a rank.
    Ranks that share a device get all the queues that it has."""
    variables = {"CUDA_MODULE_LOADING": "EAGER", "CUDA_DEVICE_MAX_CONNECTIONS": "32", "CUDA_HOME": "/usr/local/cuda",
                 "VIRTUAL_ENV": sys.prefix, "PYTHONUNBUFFERED": "1"}
    for folder in site.getsitepackages() + [site.getusersitepackages()]:
        for file in sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnccl.so*"))):
            variables["SPARSECOLL_NCCL_LIBRARY"] = file
    return {**variables, **os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/local/cuda/bin"}


def unpacked(archive, folder):
    """The archive of `pack`, as the folder that it has become."""
    if not os.path.exists(archive):
        raise Unfit(f"there is no {archive}: scripts/gpu-half-hour pack makes it")
    shutil.unpack_archive(archive, folder)
    return folder


def text_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def whole_json(path):
    try:
        json.loads(text_of(path))
    except ValueError:
        return False
    return True


class Worker:
    """May die or be killed at any time: what it has noted stays."""

    def __init__(self, number, clock, records, options):
        self.command, self.clock, self.records, self.options = table.COMMANDS[number], clock, records, options
        self.environment, self.running = environment(), []
        os.environ["PATH"] = self.environment["PATH"]

    def work(self):
        try:
            self.meet()
        except Unfit as reason:
            self.records.note("begin", f"FAILED ({reason})")
            sys.exit(UNFIT)
        items = self.expanded()
        self.records.plan(item.name for item in items)
        self.records.note("begin", f"passed ({self.clock.seconds():.1f} s)")
        while items or self.running:
            self.running = [(item, run) for item, run in self.running if not self.finished(item, run)]
            while items and len(self.running) < self.command.at_once:
                self.start(items.pop(0))
            time.sleep(0.01)

    def ask(self, words, limit):
        return processes.ask(words, limit * self.clock.scale, self.clock.grace,
                             os.path.join(self.records.private, "answer"))

    def meet(self):
        """A driver that says that there is no device is believed; one that hangs may still run programs."""
        wrong, text = self.ask(DEVICE, 20)
        if wrong and not wrong.startswith("timeout"):
            raise Unfit(f"no GPU or no driver here: {wrong} {text}")
        device = [word.strip() for word in text.split("\n")[0].split(",")] if not wrong else []
        for name, answer in zip(("gpu", "driver", "capability"), device + ["unknown"] * 3):
            self.records.fact(name, answer)
        self.programs = self.options.programs or unpacked(self.options.archive,
                                                          os.path.join(self.records.private, "programs"))
        packed = text_of(os.path.join(self.programs, "commit.txt")).strip()
        self.records.fact("commit", self.options.commit or packed or "unknown")
        self.records.fact("date", datetime.datetime.now(datetime.timezone.utc).strftime("%FT%TZ"))
        for name, words in FACTS.items():
            wrong, text = self.ask(words, 10)
            version = re.search(r"(release|Version) .*", text) or re.search(".*", text)
            self.records.fact(name, wrong or version.group())

    def expanded(self):
        """The command's items, with one for each of the tests of kernels."""
        items, named = [], {program for item in self.command.items for program in item.programs}
        tests = sorted(fnmatch.filter(os.listdir(self.programs), table.KERNEL_TESTS))
        for item in self.command.items:
            if item.words != (table.KERNEL_TESTS,):
                items.append(item)
                continue
            for test in tests:
                if test not in named:
                    name = test.removeprefix("device_").removesuffix("_test")
                    items.append(dataclasses.replace(item, name=f"{item.name}-{name}", words=(test,)))
        return items

    def start(self, item):
        words = [self.word(item, word) for word in item.words]
        missing = next((word for word in item.programs if not os.path.exists(os.path.join(self.programs, word))), None)
        if missing or not shutil.which(words[0]):
            self.records.note(item.name, f"skipped: there is no {missing or words[0]}")
            return
        left = self.clock.left()
        if left < item.least * self.clock.scale:
            self.records.note(item.name, "not run: out of time")
            return
        run = processes.Run(words, min(item.limit * self.clock.scale, left), self.clock.grace,
                            self.records.path(item.name + ".log"), {**self.environment, **dict(item.environment)},
                            begin=lambda: self.records.start(item.name, os.getpid()))
        self.running.append((item, run))

    def word(self, item, word):
        if table.PROGRAM.match(word):
            return os.path.join(self.programs, word)
        if LENGTH.match(word):
            return str(max(int(word) // self.options.shrink, SHORTEST))
        return word.format(json=self.records.path(item.name + ".json"), file=self.records.path(item.name))

    def finished(self, item, run):
        if not run.over():
            return False
        log = text_of(self.records.path(item.name + ".log"))
        wrong = run.outcome()
        if not wrong and NOTHING_RAN.search(log):
            wrong = "nothing was run"
        if not wrong and item.json and not whole_json(self.records.path(item.name + ".json")):
            wrong = "its JSON is cut short"
        if item.may_skip and run.process.returncode == SKIPPED:
            reason = (log.splitlines() or ["it does not say why"])[-1]
            self.records.note(item.name, f"skipped: {reason.removeprefix('skipped: ')}")
        elif wrong:
            print("\n".join(log.splitlines()[-20:]))
            self.records.note(item.name, f"FAILED ({wrong}; {run.seconds():.1f} s)")
        else:
            self.records.note(item.name, f"passed ({run.seconds():.1f} s)")
        return True


def run(number, out, options):
    """Exit status: 0 good, 1 something failed or was not run, 2 unfit. Leaves one archive in any case."""
    clock = Clock(table.COMMANDS[number].budget, options.scale)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-half-hour-", ignore_cleanup_errors=True) as private:
        records = Records(private, f"gpu-half-hour-{number}")
        worker = multiprocessing.get_context("fork").Process(target=Worker(number, clock, records, options).work)
        worker.start()
        try:
            while worker.is_alive() and clock.cut_in() > 0:
                worker.join(min(ARCHIVED_EVERY, clock.cut_in()))
                records.archive(out)
        finally:
            worker.kill()
            worker.join(clock.reserve)
            records.take_over()
            records.fact("seconds", f"{clock.seconds():.1f} of {clock.budget:.0f}")
            print(f"records: {records.archive(out)}")
        if worker.exitcode == UNFIT:
            return UNFIT
        return 1 if bad(records.checks()) else 0
