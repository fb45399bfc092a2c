"""What a command leaves: machine.txt, checks.txt, and the logs and results of its items, as one archive."""

import io
import os
import re
import tarfile
import time

from gpu_half_hour import processes

MOST_OF_LOG = 1 << 20
MOST_OF_FILE = 6 << 20
MOST_OF_ARCHIVE = 15 << 20


class Records:
    """What was planned and started lies beside what is archived, for whoever has to take over."""

    def __init__(self, private, name):
        self.private, self.name, self.folder = private, name, os.path.join(private, name)
        os.mkdir(self.folder)
        self.planned, self.started = os.path.join(private, "planned"), os.path.join(private, "started")

    def path(self, file):
        return os.path.join(self.folder, file)

    def checks(self):
        return pairs(self.path("checks.txt"))

    def note(self, name, text):
        add_line(self.path("checks.txt"), f"{name}: {text}")
        print(f"{name}: {text}", flush=True)

    def fact(self, name, text):
        add_line(self.path("machine.txt"), f"{name} {text}")

    def plan(self, names):
        for name in names:
            add_line(self.planned, name)

    def start(self, name, group):
        add_line(self.started, f"{name}: {group}")

    def take_over(self):
        """Once nobody runs items any more: ends what is still running, and notes what nobody could."""
        noted = dict(self.checks())
        started = dict(pairs(self.started))
        for name in {**dict(pairs(self.planned)), **started}:
            if name not in noted and name in started:
                processes.end_group(int(started[name]))
                self.note(name, "FAILED (cut off)")
            elif name not in noted:
                self.note(name, "not run: cut off")
        if not noted:
            self.note("begin", "FAILED (cut off)")

    def archive(self, out):
        """Leaves OUT/NAME.tar.gz, which is whole at any time."""
        path = os.path.join(out, self.name + ".tar.gz")
        for only_text in (False, True):
            with tarfile.open(path + ".part", "w:gz", compresslevel=5) as archive:
                for file in sorted(os.listdir(self.folder)):
                    data = content(self.path(file), only_text)
                    if data is not None:
                        member = tarfile.TarInfo(f"{self.name}/{file}")
                        member.size, member.mtime = len(data), int(time.time())
                        archive.addfile(member, io.BytesIO(data))
            if os.path.getsize(path + ".part") <= MOST_OF_ARCHIVE:
                break
        os.replace(path + ".part", path)
        return path


def bad(checks):
    return [name for name, text in checks if not re.match("passed|skipped", text)]


def add_line(path, text):
    with open(path, "a", encoding="utf-8") as file:
        file.write(" ".join(text.split()) + "\n")


def pairs(path):
    """Lines "name: text" as pairs; nothing where there is no file."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").partition(": ")[::2] for line in file]


def content(path, only_text):
    """A file's bytes for the archive, or None. A long log loses its middle. Programs may still write and delete."""
    try:
        size = os.path.getsize(path)
        text = path.endswith((".txt", ".json", ".log"))
        if size > MOST_OF_FILE and not path.endswith(".log") or only_text and not text:
            return None
        with open(path, "rb") as file:
            if size <= MOST_OF_LOG or not path.endswith(".log"):
                return file.read(size)
            begin = file.read(MOST_OF_LOG // 4)
            file.seek(size - MOST_OF_LOG * 3 // 4)
            return begin + b"\n[the middle is left out]\n" + file.read(MOST_OF_LOG)
    except OSError:
        return None
