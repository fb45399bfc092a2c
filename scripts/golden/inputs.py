"""The gradients of the golden runs, from whole numbers and exact products: tests/golden/inputs.cpp makes the same bits.

"made": every entry the eighth power of a uniform number, layers of four scales. "uneven": the same, but tensors of at
most 32 entries are 64 times as large. "cnn", "lstm": a recorded gradient,
first one of step 10, later of step 300, with every entry scaled by a number in [1, 2) that differs by step and rank.
"""
import pathlib

import numpy as np

TENSORS = [432, 16, 2304, 16, 4608, 32, 9216, 32, 640, 10]
STEPS = 8
RECORDED = pathlib.Path(__file__).resolve().parents[2] / "bench" / "gradients"


def mix_bits(x):
    """The finaliser of SplitMix64 on an array of 64-bit numbers."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def chance(n, step, rank):
    place = np.arange(n, dtype=np.uint64)
    return mix_bits(place + np.uint64(((step << 8) + rank) << 32))


def made(tensors, step, rank, small_tensors=1.0):
    bits = chance(sum(tensors), step, rank)
    power = ((bits >> np.uint64(24)) + np.uint64(1)).astype(np.float64) * 2.0**-40
    for _ in range(3):
        power = power * power
    scales = np.repeat([2.0 ** -(t % 4) * (small_tensors if n <= 32 else 1) for t, n in enumerate(tensors)], tensors)
    return (np.where(bits & np.uint64(1), -power, power) * scales).astype(np.float32)


def recorded(name, tensors, step, rank):
    n = sum(tensors)
    half = np.load(RECORDED / f"{name}-step{10 if step < STEPS // 2 else 300}.npy")[:n]
    factor = (np.uint64(4096) + (chance(n, step, rank) >> np.uint64(52))).astype(np.float64)
    return (half.astype(np.float64) * factor * 2.0**-26).astype(np.float32)


def gradient(name, tensors, step, rank):
    if name in ("made", "uneven"):
        return made(tensors, step, rank, 64.0 if name == "uneven" else 1.0)
    return recorded(name, tensors, step, rank)


def fingerprint(vector):
    """Of the bits of all entries and where they stand; -0 counts as 0."""
    bits = (vector + np.float32(0)).astype(np.float32).view(np.uint32).astype(np.uint64)
    place = np.arange(len(bits), dtype=np.uint64) << np.uint64(32)
    with np.errstate(over="ignore"):
        return f"{int(np.sum(mix_bits(place | bits), dtype=np.uint64)):016x}"
