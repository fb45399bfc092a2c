#!/usr/bin/env python3
"""How many instructions the hot loops execute, read from the machine code of sm_90.

usage: sass.py [--tools FOLDER]... [--compiler VERSION] [--show KERNEL] LIMITS OBJECTS...
LIMITS    lines "file kernel elements most must...": a round of that kernel's loop is for so many elements of a thread
          and may take `most` instructions; must: "opcode=times", what it does (see sass_code.py for what a round is)
OBJECTS   what the build compiled of those files, VERSION of nvcc
FOLDER    where nvdisasm and cuobjdump are, if not on PATH nor where pip puts them (scripts/fetch-nvidia fetches them)
--show    prints the rounds of a kernel, for whoever writes a line

A limit is what the loop took when it was last looked at: it fails where a number has risen, and says so where it has
fallen. It fails where a loop no longer does what it must, wide loads for one, and where any kernel of the objects
touches local memory. Exit status 77 where there are no tools, another compiler than that of the limits, or no code for
sm_90.
"""
import argparse
import glob
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile

import sass_code

SKIPPED = 77
ARCHITECTURE = "sm_90"


class Row:
    def __init__(self, line):
        file, self.kernel, elements, most, *must = line.split()
        self.file = file
        self.elements = int(elements)
        self.most = int(most)
        self.must = {kind: int(times) for kind, times in (word.split("=") for word in must)}
        self.name = f"{file} {self.kernel} ({' '.join(must)})"


def read_limits(path):
    """The compiler's release and the rows."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    release = next(match.group(1) for line in lines if (match := re.match(r"# nvcc (\d+\.\d+)", line)))
    return release, [Row(line) for line in lines if line and not line.startswith("#")]


def find_tool(name, folders):
    for packages in (*site.getsitepackages(), site.getusersitepackages()):
        folders = folders + sorted(glob.glob(os.path.join(packages, "nvidia", "*", "bin")))
    path = shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))
    return path and os.path.abspath(path)


def plain_name(name):
    """sparsecoll::cuda::(anonymous namespace)::f<float, unsigned int>(...) is f<float,uint32_t>."""
    name = name.replace("(anonymous namespace)::", "").split("(")[0].removeprefix("void ")
    name = name.replace("unsigned int", "uint32_t").replace("unsigned long", "uint64_t")
    return re.sub(r"\w+::", "", name).replace(", ", ",").strip()


def kernels_of(path, nvdisasm, cuobjdump):
    """The kernels of an object by their plain names; None where it has nothing for the architecture."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([cuobjdump, "-xelf", "all", os.path.abspath(path)], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        images = glob.glob(os.path.join(folder, f"*.{ARCHITECTURE}.cubin"))
        if not images:
            return None
        text = subprocess.run([nvdisasm, "-c", "-ndf", images[0]], check=True, capture_output=True, text=True).stdout
    kernels = sass_code.parse(text)
    names = subprocess.run(["c++filt"], input="\n".join(kernels), check=True, capture_output=True, text=True).stdout
    return dict(zip(map(plain_name, names.splitlines()), kernels.values()))


def judge(row, kernel):
    """What is to be said of a row, and whether it fails."""
    way = kernel and sass_code.round_of(kernel, row.must)
    if way is None:
        what = "no loop of it does that any more" if kernel else "there is no such kernel"
        return f"FAIL: {row.name}: {what}", True
    each = f"{len(way)} instructions for {row.elements}, {len(way) / row.elements:.1f} each"
    if len(way) > row.most:
        return f"FAIL: {row.name}: {each}; the limit is {row.most}", True
    if len(way) < row.most:
        return f"{row.name}: {each}; please lower its limit from {row.most} to {len(way)}", False
    return f"{row.name}: {each}", False


def check(rows, kernels_by_file, same_compiler):
    """Prints a line a row; whether something fails."""
    failed = False
    for file, kernels in kernels_by_file.items():
        for name, kernel in kernels.items():
            if kernel.local_accesses() != 0:
                print(f"FAIL: {file} {name}: {kernel.local_accesses()} accesses to local memory")
                failed = True
    for row in rows:
        said, bad = judge(row, kernels_by_file.get(row.file, {}).get(row.kernel))
        print(said if same_compiler else said.removeprefix("FAIL: "))
        failed = failed or (bad and same_compiler)
    return failed


def show(rows, kernels_by_file, name):
    for row in rows:
        if row.kernel == name:
            print(row.name)
            for at in sass_code.round_of(kernels_by_file[row.file][name], row.must) or []:
                print("  @" if at.guarded else "   ", at.opcode, at.operands)


def skipped(reason):
    print(f"skipped: {reason}")
    return SKIPPED


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", action="append", default=[])
    parser.add_argument("--compiler")
    parser.add_argument("--show")
    parser.add_argument("limits")
    parser.add_argument("objects", nargs="+")
    options = parser.parse_args(arguments)
    tools = [find_tool(name, options.tools) for name in ("nvdisasm", "cuobjdump")]
    if None in tools:
        return skipped("no nvdisasm and cuobjdump here (scripts/fetch-nvidia fetches them)")
    release, rows = read_limits(options.limits)
    # Names of objects are those of their sources with .o behind them.
    kernels = {os.path.basename(path).removesuffix(".o"): kernels_of(path, *tools) for path in options.objects}
    if None in kernels.values():
        return skipped(f"nothing is compiled for {ARCHITECTURE}")
    if options.show:
        show(rows, kernels, options.show)
        return 0
    same = options.compiler is None or options.compiler.startswith(release + ".")
    failed = check(rows, kernels, same)
    if not same and not failed:
        return skipped(f"the limits are those of nvcc {release}, this is {options.compiler}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
