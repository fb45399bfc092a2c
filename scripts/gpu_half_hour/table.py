"""What the five commands of scripts/gpu-half-hour run: the one table of it.

Words of an item: names of programs of the archive (sparsecoll-*, device_*_test) become their paths, "{json}" and
"{file}" a file named after the item, and numbers of a million or more are lengths, which --shrink divides.
"""

import dataclasses
import re
import shlex

PROGRAM = re.compile(r"(sparsecoll-[a-z]+|device_[a-z_]+_test)$")
KERNEL_TESTS = "device_*_test"  # stands for every such program of the archive that no other item of the command runs


@dataclasses.dataclass(frozen=True)
class Item:
    """least: with fewer seconds left it is not worth a start. json: it writes some."""
    name: str
    words: tuple
    limit: int
    least: int
    environment: tuple = ()
    may_skip: bool = False
    json: bool = False

    @property
    def programs(self):
        return [word for word in self.words if PROGRAM.match(word)]


@dataclasses.dataclass(frozen=True)
class Command:
    name: str
    budget: int  # seconds, of the whole command
    at_once: int
    items: tuple


def item(name, text, limit, least=10, short=False, **fields):
    """short: the tests of steps take fewer and shorter ones."""
    words = tuple(shlex.split(text))
    if "{json}" in words:
        fields["json"] = True
    if short:
        fields["environment"] = (("SPARSECOLL_TEST_SHORT", "1"),)
    return Item(name, words, limit, least, **fields)


STEPS = "device_steps_test "
EVERY_PRESET, CAPTURED = '"every preset*"', '"captured steps*"'
THOUSAND, LONG, LONGEST = '"a thousand replays*"', '"long vectors"', '"indices past 2^31"'
LENGTHS = {"25M": 25_000_000, "100M": 100_000_000, "1B": 1_000_000_000}
PRESETS = ("topka", "micro", "deft", "sidco-e", "spardl")

SMOKE = (
    item("start", "sparsecoll-perf --list", 20),
    item("pass", "device_pass_test", 60),
    item("cut", "device_cut_test", 60),
    item("steps-short", STEPS + EVERY_PRESET, 90, short=True),
    item("operations-first", "sparsecoll-device --n 25000000 --density 0.001 --only exact_topk --json {json}", 60),
    item("captured-short", STEPS + CAPTURED, 60, short=True),
    item("replays-short", STEPS + THOUSAND, 40, short=True),
)

CORRECTNESS = (
    item("steps", STEPS + EVERY_PRESET, 150, 30),
    item("steps-captured", STEPS + CAPTURED, 150, 30),
    item("steps-thousand", STEPS + THOUSAND, 120, 20),
    item("steps-long", STEPS + LONG, 100, 20),
    item("steps-longest", STEPS + LONGEST, 150, 60),
    item("test-messages", "device_messages_test", 200, 60, may_skip=True),
    item("test", KERNEL_TESTS, 100, 10, may_skip=True),
)


def operations(length):
    return item(f"operations-{length}", f"sparsecoll-device --n {LENGTHS[length]} --json {{json}}", 100, 20)


def steps(preset, how, length="25M"):
    return item(f"steps-{length}-{preset}-{how}",
                f"sparsecoll-perf --backend cuda --ranks threads:4 --elements {LENGTHS[length]} --density 0.01,0.001 "
                f"--preset {preset} --against dense --no-check {'--graph ' if how == 'graph' else ''}--json {{json}}",
                40, 8)


def others(length):
    """What somebody without this library would do. Where CUB lacked DeviceTopK, the program lacks cub_topk."""
    yield item(f"torch-{length}", f"python3 bench/device/torch_baseline.py --n {LENGTHS[length]} --json {{json}}",
               40, 15, may_skip=True)
    for name, cases in (("topk", "cub_topk"), ("sort", "cub_sort,cub_select")):
        yield item(f"rivals-{length}-{name}",
                   f"sparsecoll-rivals --n {LENGTHS[length]} --only {cases} --json {{json}}", 30, 10)


BENCHES = (
    operations("25M"),
    *(steps(preset, how) for preset in PRESETS for how in ("eager", "graph")),
    *others("25M"),
    operations("100M"),
    *others("100M"),
    operations("1B"),
)


def sanitizer(tool, name, text, **fields):
    return item(f"{tool}-{name}", f"compute-sanitizer --tool {tool} --error-exitcode 9 {text}", 185, 40, **fields)


# Tests of kernels ask for a kernel's parameters until there are no more, and that call fails.
QUIETLY = "--report-api-errors no "


SANITIZER = (
    sanitizer("memcheck", "steps", STEPS + EVERY_PRESET, short=True),
    sanitizer("racecheck", "steps", STEPS + EVERY_PRESET, short=True),
    sanitizer("memcheck", "cut", QUIETLY + "device_cut_test"),
    sanitizer("memcheck", "lists", QUIETLY + "device_lists_test"),
    sanitizer("racecheck", "lists", "device_lists_test"),
    sanitizer("memcheck", "pass", QUIETLY + "device_pass_test"),
)


def profile(kernel, text):
    """Clocks stay as they are; the first launches are those of an empty residual."""
    return item(f"ncu-{kernel}", "ncu --clock-control none --set full --import-source no --page details "
                f"-k regex:{kernel} -s 3 -c 2 -f -o {{file}} {text}", 40, 15)


def operation(name, density):
    return f"sparsecoll-device --n 100000000 --density {density} --replays 3 --noises 2 --sets 2 --only {name}"


MICRO_STEPS = ("sparsecoll-perf --backend cuda --ranks threads:2 --elements 25000000 --density 0.01 --preset micro --no-check "
               "--steps 5 --warmup 2")

PROFILES = (
    profile("passTiles", operation("exact_topk", 0.001)),
    profile("countPieces", operation("exact_topk", 0.01)),
    profile("emitPieces", operation("exact_topk", 0.01)),
    profile("combineRanges", operation("combine", 0.01)),
    profile("writeUnions", MICRO_STEPS),
)

# Budgets sum to 1500 s: machines take time to start.
COMMANDS = {
    1: Command("smoke", 420, 1, SMOKE),
    2: Command("correctness", 330, 4, CORRECTNESS),
    3: Command("benches", 420, 1, BENCHES),
    4: Command("sanitizer", 210, 4, SANITIZER),
    5: Command("profiles", 120, 1, PROFILES),
}


def named_programs():
    return sorted({program for command in COMMANDS.values() for one in command.items for program in one.programs})
