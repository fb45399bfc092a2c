"""Command lines that nobody would write: each ends with an exit code, and says in one line what is wrong.

Takes the options of every program from its --help, gives each of them values that it cannot take, and combines them at
random.  A program must not end by a signal, must not go on with such a value, and its one line must name the option or the file.
usage: command_line_fuzz.py COUNT SEED PROGRAM...
"""
import os
import random
import re
import subprocess
import sys
import tempfile

# What no option that takes a number takes.
NO_NUMBERS = ["nan", "-nan", "inf", "-inf", "", " ", "1e", "0x", "one", "1;2", "--", "1e999", "9" * 60, "-1", "1 2",
              "\u0661", "%s%n", "1" * 5000]
# What options take that are no numbers: none of these.
NO_NAMES = ["", "nope", "threads", "threads:", "threads:0", "threads:-1", "threads:nan", "threads:1e9", "file:", "file:/nowhere/x",
            "powerlaw:", "powerlaw:nan", "powerlaw:-1", "cuda:-1", "cuda:x", "\n", "x" * 5000, "%s%n"]
# Options that need no value, print and end, or take any text: paths and filters.
LEFT_OUT = {"--help", "--version", "--list", "--dry-run", "--json", "--csv", "--svg", "--prefix", "--out", "-o", "-h"}
# But this is right.
RIGHT = {("--transport", "threads"), ("--grace", "inf")}
USAGE, ENVIRONMENT = 3, 4


def options_of(program):
    """The options that take a value: {name: takes a number}."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    text = text.split("And the options of Google Benchmark", 1)[0]
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s+((?:-\w,)?(?:--[a-z-]+|-\w))[ ,](UINT|INT|FLOAT|TEXT|LIST|RANKS|SECONDS|file:PATH)\b(.*)", line)
        if match:
            name = match[1].split(",")[-1]
            if name not in LEFT_OUT and name != "--beside":
                found[name] = match[2] not in ("TEXT", "file:PATH")
    return found


def check(command, option, folder):
    shown = " ".join(repr(argument if len(argument) < 60 else argument[:57] + "...") for argument in command)
    try:
        ended = subprocess.run(command, capture_output=True, timeout=60, cwd=folder, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"{shown} has not ended after a minute"
    lines = ended.stderr.decode(errors="replace").strip().split("\n")
    # An empty line within a value is the caller's.
    lines = [line for line in lines if line.strip()]
    if ended.returncode not in (USAGE, ENVIRONMENT):
        return f"{shown} ended with {ended.returncode}: {lines[:3]}"
    if not any(name in " ".join(lines) for name in [option, "/nowhere/x"]):
        return f"{shown} names neither {option} nor the file: {lines[:3]}"
    if len(lines) > 2:
        return f"{shown} takes {len(lines)} lines to say so: {lines[:3]}"
    return None


def main():
    count, seed, programs = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    draw = random.Random(seed)
    options = {program: options_of(program) for program in programs}
    for program, found in options.items():
        if not found:
            sys.exit(f"FAIL: {program} --help shows no option that takes a value")
    failures, runs = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            program = draw.choice(programs)
            option = draw.choice(sorted(options[program]))
            value = draw.choice(NO_NUMBERS if options[program][option] else NO_NAMES)
            if (option, value) in RIGHT:
                continue
            # Joined, a value that begins with a dash is a value.
            given = [option, value] if os.path.basename(program) == "sparsecoll-run" else [f"{option}={value}"]
            operands = {"sparsecoll-fit": ["nothing.npy"], "sparsecoll-run": ["true"]}.get(os.path.basename(program), [])
            failure = check([program, *given, *operands], option, folder)
            runs += 1
            if failure:
                failures.append(failure)
    for failure in sorted(set(failures)):
        print("FAIL:", failure)
    print(f"{runs} command lines of {len(programs)} programs, seed {seed}: {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
