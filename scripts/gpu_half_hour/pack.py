"""Builds the programs of the table, and puts them with the libraries that another machine may lack into one archive."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile

from gpu_half_hour import table

TREE = "build/gpu-programs"
MOST_BYTES = 60 << 20
# Of every machine with a compiler and a driver, and not to be older there than what came with it.
SYSTEM = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda))\.so")
CONFIGURE = ("-DSPARSECOLL_WITH_MPI=OFF", "-DSPARSECOLL_WITH_TORCH=OFF", "-DSPARSECOLL_BUILD_EXAMPLES=OFF",
             "-DCMAKE_BUILD_RPATH=$ORIGIN")


class Failed(Exception):
    pass


def printed(words, log=None):
    """What a program prints; also in a file. Its end is shown where it fails."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if log:
        with open(log, "w", encoding="utf-8") as file:
            file.write(done.stdout)
    if done.returncode:
        raise Failed("\n".join(done.stdout.splitlines()[-40:]) + f"\n{' '.join(words)}: exit status {done.returncode}")
    return done.stdout


def carried(folder, packages):
    """The prefix of Debian packages that somebody has brought along, unpacked into a folder or already before."""
    debs = sorted(glob.glob(os.path.join(packages, "*.deb")))
    for package in debs:
        printed([sys.executable, "scripts/unpack-deb", package, folder])
    prefix = os.path.join(folder if debs else os.path.abspath(packages), "usr")
    if not os.path.isdir(os.path.join(prefix, "include")):
        raise Failed(f"{packages}: neither packages nor a usr/include")
    libraries = glob.glob(os.path.join(prefix, "lib", "*-linux-gnu*"))
    os.environ["LD_LIBRARY_PATH"] = ":".join(libraries + [os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")
    return prefix


def targets():
    """Programs that can be built and are wanted: all tests of kernels, and what the table names."""
    help_text = printed(["cmake", "--build", TREE, "--target", "help"])
    known = set(re.findall(r"^(?:\.\.\. )?([\w-]+)", help_text, re.MULTILINE))
    tests = {name for name in known if table.PROGRAM.match(name) and name.startswith("device_")}
    named = set(table.named_programs())
    for name in sorted(named - known):
        print(f"left out, there is no such target: {name}")
    if not tests:
        raise Failed(f"no tests were configured: see {TREE}/configure.log")
    return sorted(tests | named & known)


def libraries(program):
    """What the loader takes for a program, by name."""
    found = dict(re.findall(r"^\t(\S+)(?: => (not found|\S+))?", printed(["ldd", program]), re.MULTILINE))
    return {name: path for name, path in found.items() if not SYSTEM.match(os.path.basename(name))}


def stage(folder, programs):
    """The stripped programs, side by side with their libraries."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for program in programs:
        shutil.copy(os.path.join(TREE, "bin", program), folder)
        for name, path in libraries(os.path.join(TREE, "bin", program)).items():
            if not os.path.exists(path):
                raise Failed(f"{program} needs {name}, which is not here")
            shutil.copy(path, os.path.join(folder, name))
    for file in os.listdir(folder):
        printed(["strip", "--strip-unneeded", os.path.join(folder, file)])
    os.environ.pop("LD_LIBRARY_PATH", None)
    for program in programs:
        for name, path in libraries(os.path.join(folder, program)).items():
            if os.path.dirname(os.path.abspath(path)) != os.path.abspath(folder):
                raise Failed(f"{program} does not take {name} from beside itself: {path}")


def commit_here():
    try:
        return printed(["git", "describe", "--always", "--dirty"]).strip()
    except (Failed, OSError):
        return "unknown"


def pack(options, architectures):
    os.makedirs(TREE, exist_ok=True)
    configure = ["cmake", "--preset", "cuda", "-B", TREE, f"-DSPARSECOLL_CUDA_ARCHITECTURES={architectures}",
                 *CONFIGURE, *options.cmake]
    packages = os.environ.get("SPARSECOLL_CARRIED")
    if packages:
        configure.append("-DCMAKE_PREFIX_PATH=" + carried(os.path.abspath(os.path.join(TREE, "carried")), packages))
    said = printed(configure, os.path.join(TREE, "configure.log"))
    print("\n".join(re.findall(r"^-- CUB with DeviceTopK.*", said, re.MULTILINE)))
    programs = targets()
    print(f"building {' '.join(programs)}", flush=True)
    printed(["cmake", "--build", TREE, "-j", str(os.cpu_count()), "--target", *programs],
            os.path.join(TREE, "build.log"))
    staged = os.path.join(TREE, "staged")
    stage(staged, programs)
    with open(os.path.join(staged, "commit.txt"), "w", encoding="utf-8") as file:
        file.write((options.commit or commit_here()) + "\n")
    archive = options.archive
    os.makedirs(os.path.dirname(archive), exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=6) as packed:
        for file in sorted(os.listdir(staged)):
            packed.add(os.path.join(staged, file), file)
    size = os.path.getsize(archive)
    if size > MOST_BYTES:
        os.remove(archive)
        raise Failed(f"{size} bytes are packed, at most {MOST_BYTES} can travel")
    print(f"{archive}: {size} bytes, {len(programs)} programs")
