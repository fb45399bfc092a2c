#!/usr/bin/env python3
"""The Python examples run in two processes.

usage: examples_test.py EXAMPLES_FOLDER
"""
import importlib.util
import pathlib
import random
import sys
import tempfile
import unittest

import launch

EXAMPLES = pathlib.Path(sys.argv[1])


def needs(module):
    return unittest.skipUnless(importlib.util.find_spec(module), f"there is no {module} here")


def run(name, *arguments):
    outputs = []
    for status, output in launch.finish(launch.start(str(EXAMPLES / name), list(arguments), 2)):
        if status != 0:
            raise AssertionError(f"{name} {' '.join(arguments)}: exit status {status}\n{output}")
        outputs.append(output)
    return outputs


class Examples(unittest.TestCase):
    @needs("numpy")
    def test_numpy(self):
        for rank, output in enumerate(run("numpy_allreduce.py")):
            self.assertRegex(output, f"rank {rank} of 2 over \\w+: 10000 of 1000000 entries sent per step, "
                                     r"80\d{4} bytes instead of 40000000")

    @needs("torch")
    def test_made_up_images(self):
        first, second = run("ddp_cifar10.py", "--steps", "8", "--batch-size", "4")
        self.assertRegex(first, r"topka: test accuracy \d+\.\d %")
        self.assertRegex(first, r"bucket of \d+ elements: topka \(topk and allgather, as asked\), density 0\.01")
        self.assertNotIn("accuracy", second)

    @needs("torch")
    def test_a_folder(self):
        def records(count):
            return b"".join(bytes([i % 10]) + random.Random(i).randbytes(3072) for i in range(count))

        with tempfile.TemporaryDirectory() as folder:
            for name in ("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"):
                pathlib.Path(folder, name).write_bytes(records(20))
            run("ddp_cifar10.py", "--data", folder, "--steps", "3", "--batch-size", "4", "--preset", "dense")
            pathlib.Path(folder, "data_batch_2.bin").write_bytes(records(1)[:-1])
            with self.assertRaisesRegex(AssertionError, r"data_batch_2\.bin: 3072 bytes are no whole number"):
                run("ddp_cifar10.py", "--data", folder, "--steps", "3")


if __name__ == "__main__":
    if not any(importlib.util.find_spec(module) for module in ("numpy", "torch")):
        print("skipped: there is neither NumPy nor PyTorch here")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
