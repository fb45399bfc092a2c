#!/usr/bin/env python3
"""Dense sums of this library beside gloo's (torch.distributed) and Open MPI's, between processes of this machine.

usage: compare.py LIBRARY [--ranks 2,4] [--bytes 65536,...] [--steps N] [--links tcp,memory,1gbit]

Each step runs all three, one after the other, in an order that turns; each begins when all ranks have met, and the
links have had a rest. So all see the same machine, and what else it does. Per case a line of CSV: medians of the
slowest rank's milliseconds, and as "ratio" the smaller one of two medians over the steps, gloo / ours and MPI / ours:
above 1 ours is faster than both. The columns of cpu are medians of the processors' time of all ranks together, which a
busy machine changes less, but who waits by looking again and again spends it, too. Links: tcp is our TCP engine,
without shared memory, beside MPI's TCP; memory is our TCP engine with shared memory beside MPI's shared memory; gloo
knows TCP only; 1gbit or another rate: TCP between hosts that are network namespaces with links of that rate, a rank on
each (root, or namespaces of users). All vectors hold whole numbers, so sums are exact: "wrong" counts entries that are
not.
Needs PyTorch, NumPy and mpirun.openmpi; ends with 1 if an entry is wrong.
"""
import argparse
import ctypes
import datetime
import importlib.util
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Before each sum: until the buckets of shaped links are full again, of which short sums take a good part.
PAUSE = 0.004
LINKS = {"tcp": ("0", "tcp,self"), "memory": ("1", "vader,self")}  # of one host: SPARSECOLL_SHARED_MEMORY, MPI's
# What mpirun needs among hosts. It does not take the cores away from the kernel while it waits.
AMONG_HOSTS = """printf '%s slots=1\\n' $HOSTS > "$HOSTS_DIR/hostfile"
exec on "${HOSTS%% *}" mpirun.openmpi --hostfile "$HOSTS_DIR/hostfile" --mca plm_rsh_agent "$HOSTS_DIR/on" \\
  --mca oob_tcp_if_include eth0 --mca mpi_yield_when_idle 1 "$@"
"""


class Meeting:
    """Ranks meet through words in a shared file, so that none of the three is at work just before the clock starts."""

    def __init__(self, path, rank, ranks):
        import numpy as np

        with open(path, "ab") as file:
            file.truncate(64 * ranks)
        self.words = np.memmap(path, np.int64, "r+", shape=(ranks, 8))[:, 0]
        self.rank, self.times = rank, 0

    def __call__(self):
        self.times += 1
        self.words[self.rank] = self.times
        while self.words.min() < self.times:
            os.sched_yield()


class Mpi:
    """Open MPI, in this process."""

    def __init__(self):
        self.lib = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.lib.MPI_Init(None, None)
        self.world = self.handle("ompi_mpi_comm_world")
        self.float, self.double = self.handle("ompi_mpi_float"), self.handle("ompi_mpi_double")
        self.sum, self.max = self.handle("ompi_mpi_op_sum"), self.handle("ompi_mpi_op_max")

    def handle(self, name):
        return ctypes.byref(ctypes.c_char.in_dll(self.lib, name))

    def all_reduce(self, array, kind, operation):
        in_place = ctypes.c_void_p(1)
        failed = self.lib.MPI_Allreduce(in_place, ctypes.c_void_p(array.ctypes.data), array.size, kind, operation, self.world)
        if failed:
            raise RuntimeError(f"MPI_Allreduce: {failed}")


def rank_main(options):
    import numpy as np
    import torch
    import torch.distributed as dist

    import sparsecoll
    from sparsecoll._library import lib

    torch.set_num_threads(1)
    mpi = Mpi()
    rank, ranks = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{options.meet}", rank=rank, world_size=ranks)
    config = sparsecoll.Config(transport="tcp")
    unique = torch.zeros(128, dtype=torch.uint8)
    if rank == 0:
        unique = torch.tensor(list(sparsecoll.Communicator.unique_id(config)), dtype=torch.uint8)
    dist.broadcast(unique, 0)
    communicator = sparsecoll.Communicator.from_id(bytes(unique.tolist()), rank, ranks, config=config)

    meet = Meeting(f"{options.meet}_words", rank, ranks)
    anything_wrong = 0
    for size in options.bytes:
        n = size // 4
        given = (np.arange(n, dtype=np.float32) + rank) % 64
        right = sum((np.arange(n, dtype=np.float32) + other) % 64 for other in range(ranks))
        values = np.empty_like(given)
        tensor = torch.from_numpy(values)
        reducer = sparsecoll.Reducer(communicator, n, np.float32, preset="dense")
        address, run = ctypes.c_void_p(values.ctypes.data), lib.sparsecollReducerRun

        def ours():  # as near to C as MPI's
            if run(reducer.handle, address, address, None):
                raise RuntimeError(lib.sparsecollGetLastError().decode())

        ways = {"ours": ours, "gloo": lambda: dist.all_reduce(tensor),
                "mpi": lambda: mpi.all_reduce(values, mpi.float, mpi.sum)}
        names, took, spent, wrong = list(ways), [], [], np.zeros(1)
        for step in range(options.warmup + options.steps):
            row, processor = np.zeros(len(names)), np.zeros(len(names))
            for turn in range(len(names)):
                at = (step + turn) % len(names)
                values[:] = given
                meet()
                time.sleep(PAUSE)
                meet()
                begin, before = time.perf_counter(), time.process_time()
                ways[names[at]]()
                row[at], processor[at] = time.perf_counter() - begin, time.process_time() - before
                wrong += np.count_nonzero(values != right)
            mpi.all_reduce(row, mpi.double, mpi.max)
            mpi.all_reduce(processor, mpi.double, mpi.sum)
            if step >= options.warmup:
                took.append(row)
                spent.append(processor)
        reducer.close()
        mpi.all_reduce(wrong, mpi.double, mpi.sum)
        anything_wrong += wrong[0]
        if rank == 0:
            medians = [1e3 * statistics.median(row[at] for row in rows) for rows in (took, spent) for at in range(len(names))]
            ratio = min(statistics.median(row[other] / row[0] for row in took) for other in (1, 2))
            print(f"{options.link},{ranks},{size}," + ",".join(f"{ms:.3f}" for ms in medians) + f",{ratio:.2f},{wrong[0]:.0f}",
                  flush=True)
    communicator.close()
    dist.destroy_process_group()
    mpi.lib.MPI_Finalize()
    return 1 if anything_wrong else 0


def launch(options, link, ranks):
    with tempfile.TemporaryDirectory(prefix="compare_") as folder:
        shared, messages = LINKS.get(link, LINKS["tcp"])
        interface = "lo" if link in LINKS else "eth0"
        environment = {**os.environ, "SPARSECOLL_SHARED_MEMORY": shared, "SPARSECOLL_INTERFACE": interface, "SPARSECOLL_LIBRARY": str(pathlib.Path(options.library).resolve()),
                       "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
                       "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": interface, "UCX_LOG_LEVEL": "error",
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        start = ["mpirun.openmpi", "--oversubscribe"] if link in LINKS else [
            ROOT / "tests" / "hosts" / "network.sh", "--hosts", str(ranks), "--rate", link, "--", "bash", "-c", AMONG_HOSTS, "bash"]
        return subprocess.run(
            [*start, "-n", str(ranks), "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", messages, "--mca",
             "btl_tcp_if_include", interface, sys.executable, pathlib.Path(__file__).resolve(), options.library, "--link", link,
             "--meet", f"{folder}/meet", "--steps", str(options.steps), "--warmup", str(options.warmup), "--bytes",
             ",".join(map(str, options.bytes))], env=environment).returncode


def arguments():
    def numbers(text):
        return [int(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--ranks", type=numbers, default=[2, 4])
    parser.add_argument("--bytes", type=numbers, default=[65536 << shift for shift in range(0, 11, 2)])
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--links", type=lambda text: text.split(","), default=list(LINKS))
    parser.add_argument("--link", help=argparse.SUPPRESS)  # of a rank, which mpirun has started
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.link:
        return rank_main(options)
    missing = [name for name in ("torch", "numpy") if importlib.util.find_spec(name) is None]
    missing += ["mpirun.openmpi"] if shutil.which("mpirun.openmpi") is None else []
    if missing:
        print(f"compare: skipped: no {', no '.join(missing)}", file=sys.stderr)
        return 77
    described = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    print(f"# {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}, commit {described.stdout.strip() or 'unknown'}, "
          f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.steps} steps")
    print("link,ranks,bytes,ours_ms,gloo_ms,mpi_ms,ours_cpu_ms,gloo_cpu_ms,mpi_cpu_ms,ratio,wrong", flush=True)
    codes = [launch(options, link, ranks) for link in options.links for ranks in options.ranks]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
