#!/usr/bin/env python3
"""Ranks average NumPy gradients, of which each sends 1 %. For any launcher, for example

    sparsecoll-run -n 4 -- python3 numpy_allreduce.py
    torchrun --nproc_per_node=4 numpy_allreduce.py
"""
import numpy as np

from sparsecoll import Communicator, Reducer

N, STEPS = 1_000_000, 10


def main():
    with Communicator.from_env() as communicator:
        random = np.random.default_rng(communicator.rank)
        reducer = Reducer(communicator, N, np.float32, preset="topka", density=0.01, op="avg")
        for _ in range(STEPS):
            gradient = random.standard_normal(N, dtype=np.float32)  # backward
            reducer.run(gradient)  # in place: now it is the average of all ranks
        stats, residual = reducer.stats(), reducer.residual()
        reducer.close()
        print(f"rank {communicator.rank} of {communicator.size} over {communicator.transport}: "
              f"{stats.last_selected} of {N} entries sent per step, {stats.bytes_sent} bytes instead of "
              f"{stats.bytes_dense}; the largest entry that waits is {abs(residual).max():.3f}")


if __name__ == "__main__":
    main()
