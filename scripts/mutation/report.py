"""The page of a run."""
import collections
import pathlib

from .trials import KILLED, OPEN, SURVIVED


def needs_absent_instructions(mutant):
    """AVX-512 on a machine without it: nothing there can run."""
    return mutant["file"] == "host/avx512.cpp" and "avx512bw" not in pathlib.Path("/proc/cpuinfo").read_text()


def share(killed, drawn):
    return f"{killed} of {drawn} killed ({100 * killed / max(drawn, 1):.0f} %)"


def summary(results):
    killed = share(sum(entry["result"] == KILLED for entry in results), len(results))
    unfinished = sum(entry["result"] == OPEN for entry in results)
    return f"{killed}, {unfinished} survived so far" if unfinished else killed


def page(results, seed, available):
    killed = [entry for entry in results if entry["result"] == KILLED]
    survived = [entry for entry in results if entry["result"] == SURVIVED]
    unfinished = [entry for entry in results if entry["result"] == OPEN]
    hows = collections.Counter(entry["how"] for entry in killed)
    lines = ["# Mutants", "", f"Seed {seed}: {len(results)} of {available} mutants were drawn, {summary(results)}: " +
             ", ".join(f"{number} by {how}" for how, number in hows.most_common()) + ".", "",
             "| folder | drawn | killed |", "|---|---:|---:|"]
    for folder in sorted({entry["file"].split("/")[0] for entry in results}):
        here = [entry for entry in results if entry["file"].split("/")[0] == folder]
        lines.append(f"| {folder} | {len(here)} | {sum(entry['result'] == KILLED for entry in here)} |")
    for title, entries in (("Survived", survived), ("Survived so far", unfinished), ("Killed", killed)):
        lines += ["", f"## {title}", ""]
        for entry in sorted(entries, key=lambda entry: (entry["file"], entry["line"])):
            how = f"{entry['how']} of {entry['by']}" if "by" in entry else entry["how"]
            lines += [f"- {entry['file']}:{entry['line']} in {entry['function']}: {how}", "  ```diff",
                      f"  - {entry['before']}", f"  + {entry['after']}", "  ```"]
    return "\n".join(lines) + "\n"
