#!/usr/bin/env python3
"""Reducers and communicators from Python, over threads and over processes."""
import ctypes
import dataclasses
import json
import os
import signal
import sys
import tempfile
import threading
import time
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: there is no NumPy here")
    sys.exit(77)

import launch
import sparsecoll
from sparsecoll import Communicator, Config, Reducer, Segment, _arrays, all_reduce
from sparsecoll._reducer import preset_of

QUICK = Config(op_timeout=300, init_timeout=300)


def on_threads(ranks, work, config=QUICK):
    """[work(communicator)] of each rank, in a thread of its own. What a rank raises is raised here."""
    results, errors = [None] * ranks, []

    def run(communicator):
        try:
            results[communicator.rank] = work(communicator)
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)
            communicator.abort()

    communicators = Communicator.threads(ranks, config=config)
    threads = [threading.Thread(target=run, args=(communicator,)) for communicator in communicators]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for communicator in communicators:
        communicator.close()
    if errors:
        raise errors[0]
    return results


def gradient_of(rank, step, n=5000, dtype=np.float32):
    return np.random.default_rng(1000 * step + rank).standard_normal(n).astype(dtype)


def reference(ranks, steps, n, k):
    """(sums, residuals) of topka with error feedback, by NumPy; magnitudes that tie are of probability 0 here."""
    residuals = [np.zeros(n, np.float32) for _ in range(ranks)]
    sums = []
    for step in range(steps):
        total = np.zeros(n, np.float32)
        for rank in range(ranks):
            acc = residuals[rank] + gradient_of(rank, step, n)
            sent = np.argpartition(-np.abs(acc), k - 1)[:k]
            total[sent] += acc[sent]
            acc[sent] = 0
            residuals[rank] = acc
        sums.append(total)
    return sums, residuals


class Threads(unittest.TestCase):
    def test_sums_are_the_references_with_error_feedback(self):
        ranks, steps, n, k = 3, 6, 5000, 100

        def work(communicator):
            reducer = Reducer(communicator, n, np.float32, k=k)
            sums = [reducer.run(gradient_of(communicator.rank, step, n)) for step in range(steps)]
            return sums, reducer.residual(), reducer.stats(), reducer.info()

        wanted, residuals = reference(ranks, steps, n, k)
        for rank, (sums, residual, stats, info) in enumerate(on_threads(ranks, work)):
            for sum_here, sum_wanted in zip(sums, wanted):
                np.testing.assert_array_equal(sum_here, sum_wanted)
            np.testing.assert_array_equal(residual, residuals[rank])
            self.assertEqual((stats.ops_completed, stats.last_selected, stats.last_collective), (steps, k, "allgather"))
            self.assertEqual((info.selector, info.k, info.n), ("topk", k, n))
            self.assertGreater(stats.bytes_dense, stats.bytes_sent)

    def test_nothing_is_lost_and_replicas_are_equal(self):
        n, steps = 4096, 5

        def work(preset):
            def rank_of(communicator):
                reducer = Reducer(communicator, n, np.float64, preset=preset, density=0.02, momentum=0)  # dgc has some
                outs = [reducer.run(gradient_of(communicator.rank, step, n, np.float64)) for step in range(steps)]
                return np.array(outs), reducer.residual()
            return rank_of

        put_in = sum(gradient_of(rank, step, n, np.float64) for rank in range(2) for step in range(steps))
        for preset in ("topka", "micro", "spardl", "dgc"):
            with self.subTest(preset):
                (outs, residual), (others, other_residual) = on_threads(2, work(preset))
                np.testing.assert_array_equal(outs, others)
                np.testing.assert_allclose(outs.sum(axis=0) + residual + other_residual, put_in, atol=1e-12)

    def test_sparse_sums_are_the_dense_ones(self):
        def work(communicator):
            dense, sparse = Reducer(communicator, 5000, density=0.01), Reducer(communicator, 5000, density=0.01)
            for step in range(3):
                out = dense.run(gradient_of(communicator.rank, step))
                indices, values = sparse.run_sparse(gradient_of(communicator.rank, step))
                self.assertEqual(indices.dtype, np.uint32)
                self.assertTrue(np.all(np.diff(indices.astype(np.int64)) > 0))
                np.testing.assert_array_equal(np.flatnonzero(out), indices)
                np.testing.assert_array_equal(out[indices], values)

        on_threads(2, work)

    def test_resume_has_the_same_bits(self):
        def work(communicator):
            first = Reducer(communicator, 5000, preset="micro", density=0.02, momentum=0.9)
            for step in range(3):
                first.run(gradient_of(communicator.rank, step))
            state = first.export_state()
            second = Reducer(communicator, 5000, preset="micro", density=0.02, momentum=0.9)
            second.import_state(state)
            for step in range(3, 6):
                np.testing.assert_array_equal(first.run(gradient_of(communicator.rank, step)),
                                              second.run(gradient_of(communicator.rank, step)))
            self.assertEqual(first.export_state(), second.export_state())
            damaged = bytearray(state)
            damaged[200] ^= 1
            with self.assertRaises(sparsecoll.Corrupted):
                second.import_state(bytes(damaged))

        on_threads(2, work)

    def test_scales_give_back_reset_and_flush(self):
        def work(communicator):
            reducer = Reducer(communicator, 5000, density=0.01, op="avg")
            gradient = gradient_of(communicator.rank, 0)
            out = reducer.run(8 * gradient, out=np.empty_like(gradient))
            plain = Reducer(communicator, 5000, density=0.01, op="avg", input_scale=1 / 8, output_scale=8)
            scaled = plain.run(8 * gradient)
            np.testing.assert_array_equal(out, scaled)
            plain.give_back(scaled)
            reducer.give_back(out)
            np.testing.assert_array_equal(reducer.residual(), 8 * plain.residual())
            plain.set_scales(1, 1)
            rest = plain.flush(np.zeros_like(gradient))
            self.assertFalse(plain.residual().any())
            reducer.reset()
            self.assertFalse(reducer.residual().any())
            return rest

        # Each rank takes back an equal share of what all had sent.
        rests = on_threads(2, work)
        np.testing.assert_allclose(sum(rests), gradient_of(0, 0) + gradient_of(1, 0), atol=1e-6)

    def test_density_changes_and_segments(self):
        def work(communicator):
            reducer = Reducer(communicator, 5000, density=0.01, max_density=0.1)
            reducer.set_density(0.1)
            reducer.run(gradient_of(communicator.rank, 0))
            self.assertEqual(reducer.stats().last_selected, 500)
            parts = Reducer(communicator, 5000, segments=[Segment(1000, density=0.1), Segment(3900, density=0.01),
                                                          Segment(100, dense=True)])
            out = parts.run(gradient_of(communicator.rank, 0))
            np.testing.assert_array_equal(out[4900:], sum(gradient_of(rank, 0)[4900:] for rank in range(2)))
            self.assertLessEqual(np.count_nonzero(out[:1000]), 200)
            self.assertGreaterEqual(np.count_nonzero(out[:1000]), 100)

        on_threads(2, work)

    def test_auto_tells_what_it_has_decided(self):
        """A dense sum of the caller's that takes no time is the fastest, and one that takes for ever never is."""
        def work(dense_ns):
            def rank_of(communicator):
                with Reducer(communicator, 5000, preset="auto", density=0.01, dense_ns=dense_ns) as reducer:
                    self.assertFalse(reducer.decided())
                    for step in range(40):
                        reducer.run(gradient_of(communicator.rank, step))
                    self.assertTrue(reducer.decided())
                    self.assertIn("by the caller", reducer.info().reason)
                    return preset_of(reducer.info())
            return rank_of

        self.assertEqual(on_threads(2, work(1)), ["dense"] * 2)
        first, second = on_threads(2, work(10 ** 15))
        self.assertEqual(first, second)
        self.assertIn(first, ("topka", "sparcml-split", "spardl"))
        [alone] = Communicator.threads(1)
        with alone, Reducer(alone, 5000, preset="micro") as reducer:
            self.assertTrue(reducer.decided())
            self.assertEqual(preset_of(reducer.info()), "micro")

    def test_all_reduce_and_a_residual_of_the_callers(self):
        def work(communicator):
            gradient = gradient_of(communicator.rank, 0).reshape(50, 100)
            total = all_reduce(communicator, gradient, np.empty_like(gradient), preset="dense")
            np.testing.assert_array_equal(total.ravel(), gradient_of(0, 0) + gradient_of(1, 0))
            self.assertIs(all_reduce(communicator, gradient, k=10), gradient)
            self.assertLessEqual(np.count_nonzero(gradient), 20)
            residual = np.zeros(5000, np.float32)
            reducer = Reducer(communicator, 5000, density=0.01, residual=residual)
            reducer.run(gradient_of(communicator.rank, 1))
            kept = residual.copy()
            np.testing.assert_array_equal(reducer.residual(), kept)
            reducer.close()
            np.testing.assert_array_equal(residual, kept)
            self.assertEqual(np.count_nonzero(residual), 4950)

        on_threads(2, work)

    def test_velocity_of_the_callers_goes_on_in_another_reducer(self):
        def work(communicator):
            def steps(reducer, first, last):
                return [reducer.run(gradient_of(communicator.rank, step)).copy() for step in range(first, last)]

            whole = steps(Reducer(communicator, 5000, density=0.01, momentum=0.9), 0, 4)
            memory = {"residual": np.zeros(5000, np.float32), "velocity": np.zeros(5000, np.float32)}
            parts = []
            for first in (0, 2):
                reducer = Reducer(communicator, 5000, density=0.01, momentum=0.9, **memory)
                parts += steps(reducer, first, first + 2)
                reducer.close()
            np.testing.assert_array_equal(parts, whole)
            for wrong in (np.zeros(4999, np.float32), np.zeros(5000)):
                with self.assertRaisesRegex(sparsecoll.InvalidArgument, "velocity has another length or type"):
                    Reducer(communicator, 5000, momentum=0.9, velocity=wrong)
            with self.assertRaisesRegex(sparsecoll.InvalidArgument, "velocity for a method without momentum"):
                Reducer(communicator, 5000, velocity=memory["velocity"])

        on_threads(2, work)

    def test_errors_are_exceptions(self):
        def work(communicator):
            reducer = Reducer(communicator, 100)
            with self.assertRaises(sparsecoll.Mismatch) as caught:
                Reducer(communicator, 100 + communicator.rank)
            self.assertEqual((caught.exception.code, caught.exception.field), (18, "n"))
            for wrong in (np.zeros(99, np.float32), np.zeros(100), np.zeros(200, np.float32)[::2],
                          np.zeros(100, np.int32)):
                with self.assertRaises(sparsecoll.InvalidArgument):
                    reducer.run(wrong)
            frozen = np.zeros(100, np.float32)
            frozen.flags.writeable = False
            with self.assertRaisesRegex(ValueError, "read-only"):
                reducer.run(frozen)
            with self.assertRaises(sparsecoll.Unsupported):
                reducer.run([0.0] * 100)
            with self.assertRaisesRegex(sparsecoll.InvalidArgument, 'no preset "topk9"'):
                Reducer(communicator, 100, preset="topk9")
            gradient = np.ones(100, np.float32)
            if communicator.rank == 1:
                gradient[7] = np.nan
            with self.assertRaises(sparsecoll.NonFinite):
                reducer.run(gradient)
            self.assertFalse(communicator.ended())
            reducer.close()
            reducer.close()
            with self.assertRaises(sparsecoll.InvalidUsage):
                reducer.run(np.ones(100, np.float32))

        on_threads(2, work, dataclasses.replace(QUICK, non_finite="error"))

    def test_abort_ends_the_others_waits(self):
        def work(communicator):
            reducer = Reducer(communicator, 100)
            if communicator.rank == 1:
                communicator.abort()
                with self.assertRaises(sparsecoll.Aborted):
                    reducer.run(np.ones(100, np.float32))
                return
            with self.assertRaises(sparsecoll.PeerFailed) as caught:
                reducer.run(np.ones(100, np.float32))
            self.assertEqual((caught.exception.peer, communicator.failure().peer), (1, 1))
            self.assertTrue(communicator.ended())

        on_threads(2, work)

    def test_the_interpreter_runs_while_a_rank_waits(self):
        passed = threading.Event()

        def work(communicator):
            reducer = Reducer(communicator, 100)
            if communicator.rank == 0:
                passed.wait(60)  # while rank 1 waits in the library, where only a free interpreter gets on
            else:
                threading.Timer(0.2, passed.set).start()
            reducer.run(np.ones(100, np.float32))
            self.assertTrue(passed.is_set())

        on_threads(2, work)

    def test_the_flight_recorder_tells_of_a_step_that_waits(self):
        told, seen = threading.Event(), {}

        def watch(communicator, path):
            try:
                while not (seen.get("call") == "ReducerRun" and seen["waitsFor"]):
                    communicator.dump_flight_recorder(path)
                    with open(path, encoding="utf-8") as file:
                        seen.update(json.load(file)["entries"][-1])
                    time.sleep(0.001)
            finally:
                told.set()

        def work(communicator):
            reducer = Reducer(communicator, 5000, preset="topka", density=0.01)
            if communicator.rank == 1:
                told.wait(60)
                reducer.run(gradient_of(1, 0))
                return
            with tempfile.TemporaryDirectory() as folder:
                other = threading.Thread(target=watch, args=(communicator, os.path.join(folder, "flight.json")))
                other.start()
                reducer.run(gradient_of(0, 0))
                other.join()

        on_threads(2, work)
        self.assertEqual((seen["preset"], seen["n"], seen["k"], seen["result"], seen["waitsFor"]),
                         ("topka", 5000, 50, None, [1]))
        with self.assertRaises(sparsecoll.InvalidArgument):
            with Communicator.threads(1)[0] as alone:
                alone.dump_flight_recorder("/")

    def test_a_timeout(self):
        def work(communicator):
            reducer = Reducer(communicator, 100)
            if communicator.rank == 0:
                with self.assertRaises(sparsecoll.Timeout) as caught:
                    reducer.run(np.ones(100, np.float32))
                self.assertIsInstance(caught.exception, TimeoutError)

        on_threads(2, work, Config(op_timeout=0.2))

    def test_shrink_goes_on_with_the_residual(self):
        def work(communicator):
            reducer = Reducer(communicator, 5000, density=0.01)
            reducer.run(gradient_of(communicator.rank, 0))
            if communicator.rank == 1:
                return communicator.close()
            kept = reducer.residual()
            with communicator.shrink() as smaller:
                self.assertEqual((smaller.size, smaller.rank), (2, communicator.rank // 2))
                moved, back = reducer.move(smaller)
                self.assertFalse(back)
                np.testing.assert_array_equal(moved.residual(), kept)
                return moved.run(gradient_of(communicator.rank, 1))

        first, _, last = on_threads(3, work)
        np.testing.assert_array_equal(first, last)

    def test_split(self):
        def work(communicator):
            half = communicator.split(communicator.rank % 2, 0)
            self.assertEqual((half.size, half.rank), (2, communicator.rank // 2))
            half.close()
            self.assertIsNone(communicator.split(-1, 0))

        on_threads(4, work)

    def test_nothing_is_left_of_closed_ones(self):
        def use():
            def work(communicator):
                with Reducer(communicator, 100) as reducer:
                    reducer.run(np.ones(100, np.float32))
            on_threads(2, work)
            with Communicator.from_id(Communicator.unique_id(QUICK), 0, 1, config=QUICK) as alone:
                with Reducer(alone, 100) as reducer:
                    reducer.run(np.ones(100, np.float32))

        use()
        before = launch.threads_and_descriptors()
        for _ in range(100):
            use()
        launch.assert_no_more_than(before)


class Arrays(unittest.TestCase):
    def test_whatever_shows_where_its_elements_are(self):
        class OnlyDlpack:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self):
                return self.array.__dlpack__()

        [alone] = Communicator.threads(1)
        with alone, Reducer(alone, 12, preset="dense") as reducer:
            array = np.arange(12, dtype=np.float32).reshape(3, 4)
            before = array.copy()
            reducer.run(OnlyDlpack(array[1:].base), out=array)
            np.testing.assert_array_equal(array, before)
            with self.assertRaisesRegex(sparsecoll.InvalidArgument, "not contiguous"):
                reducer.run(OnlyDlpack(np.zeros((4, 3), np.float32).T))
            with self.assertRaisesRegex(sparsecoll.InvalidArgument, "another type"):
                reducer.run(OnlyDlpack(np.zeros(12, np.int64)))
            with self.assertRaisesRegex(sparsecoll.InvalidArgument, "another byte order"):
                reducer.run(np.zeros(12, ">f4"))
            half = np.zeros((2, 12), np.float32)
            reducer.run(OnlyDlpack(before), out=half[1])
            np.testing.assert_array_equal(half, [np.zeros(12), before.ravel()])

    def test_dlpack_tells_what_must_not_be_written(self):
        class Versioned:
            """As arrays of DLPack 1 show themselves, with these flags."""

            def __init__(self, array, flags, major=1):
                self.array = array
                shape = (ctypes.c_int64 * 1)(array.size)
                tensor = _arrays._DlTensor(array.ctypes.data, 1, 0, 1, 2, 32, 1, shape, None, 0)
                self.managed = _arrays._DlVersioned(major, 0, None, None, flags, tensor)

            def __dlpack__(self, *, max_version):
                assert max_version == (1, 0)
                make = ctypes.pythonapi.PyCapsule_New
                make.restype = ctypes.py_object
                make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
                return make(ctypes.addressof(self.managed), b"dltensor_versioned", None)

        [alone] = Communicator.threads(1)
        with alone, Reducer(alone, 12, preset="dense") as reducer:
            array = np.arange(12, dtype=np.float32)
            out = np.zeros(12, np.float32)
            for flags in 1, 2:
                with self.assertRaisesRegex(sparsecoll.InvalidArgument, "read-only"):
                    reducer.run(array, out=Versioned(out, flags))
                np.testing.assert_array_equal(out, np.zeros(12))
            reducer.run(Versioned(array, 1), out=Versioned(out, 0))
            np.testing.assert_array_equal(out, array)
            with self.assertRaisesRegex(sparsecoll.Unsupported, "version 2"):
                reducer.run(Versioned(array, 0, major=2), out=out)

    def test_a_device_array_needs_a_communicator_on_a_device(self):
        class OnDevice:
            dtype = np.dtype("float32")
            __cuda_array_interface__ = {"shape": (12,), "typestr": "<f4", "data": (4096, False), "version": 3}

        [alone] = Communicator.threads(1)
        with alone, Reducer(alone, 12) as reducer:
            with self.assertRaisesRegex(sparsecoll.InvalidArgument, "on a device"):
                reducer.run(OnDevice())


class Processes(unittest.TestCase):
    def test_two_processes_meet_by_the_environment(self):
        for status, output in launch.finish(launch.start(__file__, ["steps"], 2)):
            self.assertEqual(status, 0, output)
            self.assertIn("equal to the reference", output)

    def test_a_killed_rank_is_named(self):
        first, second = launch.finish(launch.start(__file__, ["killed"], 2))
        self.assertEqual(second[0], -signal.SIGKILL, second[1])
        self.assertEqual(first[0], 0, first[1])
        self.assertIn("PeerFailed of rank 1", first[1])

    def test_an_all_gather_of_the_callers(self):
        parts, meeting = {}, threading.Barrier(2)

        def gather_of(rank):
            def gather(data):
                parts[rank] = data
                meeting.wait(60)
                found = [parts[0], parts[1]]
                meeting.wait(60)
                return found
            return gather

        def work(rank):
            with Communicator.from_all_gather(rank, 2, gather_of(rank), config=QUICK) as communicator:
                reducer = Reducer(communicator, 10, preset="dense")
                sums.append(reducer.run(np.full(10, rank + 1, np.float32)))
                reducer.close()

        sums = []
        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(sums, np.full((2, 10), 3))

    def test_an_all_gather_that_raises(self):
        def gather(_):
            raise KeyError("no store")

        with self.assertRaises(sparsecoll.RemoteError) as caught:
            Communicator.from_all_gather(0, 2, gather, config=QUICK)
        self.assertIsInstance(caught.exception.__cause__, KeyError)

    def test_ctrl_c_in_an_all_gather_stays_what_it_is(self):
        def gather(_):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            Communicator.from_all_gather(0, 2, gather, config=QUICK)

    def test_times_that_no_clock_can_hold_are_no_limit(self):
        for seconds in (1e30, float("inf")):
            with Communicator.threads(1, config=sparsecoll.Config(op_timeout=seconds))[0] as alone:
                sparsecoll.all_reduce(alone, np.ones(100, np.float32))
            self.assertEqual(sparsecoll.Config(op_timeout=seconds)._struct().opTimeoutMs, 2 ** 64 - 1)
        self.assertEqual(sparsecoll.Config(op_timeout=None), sparsecoll.Config())
        with self.assertRaises(dataclasses.FrozenInstanceError):
            sparsecoll.Config().op_timeout = 60.0


def steps_of_a_process():
    steps, n, k = 4, 5000, 50
    with Communicator.from_env(config=QUICK) as communicator:
        reducer = Reducer(communicator, n, k=k)
        sums, residuals = reference(communicator.size, steps, n, k)
        for step in range(steps):
            np.testing.assert_array_equal(reducer.run(gradient_of(communicator.rank, step, n)), sums[step])
        np.testing.assert_array_equal(reducer.residual(), residuals[communicator.rank])
        print(f"rank {communicator.rank} of {communicator.size} over {communicator.transport}: equal to the reference")
        reducer.close()


def killed_process():
    communicator = Communicator.from_env(config=QUICK)
    reducer = Reducer(communicator, 5000)
    reducer.run(gradient_of(communicator.rank, 0))
    if communicator.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            reducer.run(gradient_of(0, 1))
    except sparsecoll.PeerFailed as error:
        print(f"PeerFailed of rank {error.peer}: {error}")


if __name__ == "__main__":
    if sys.argv[1:] == ["steps"]:
        steps_of_a_process()
    elif sys.argv[1:] == ["killed"]:
        killed_process()
    else:
        unittest.main(verbosity=2)
