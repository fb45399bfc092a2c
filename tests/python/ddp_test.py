#!/usr/bin/env python3
"""The hook for DistributedDataParallel: in two processes over gloo, and its buckets alone."""
import copy
import dataclasses
import gc
import os
import pickle
import signal
import sys
import threading
import time
import types
import unittest.mock
import weakref

import needs_gloo  # pylint: disable=unused-import  (it skips this)
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

import launch
import sparsecoll
import sparsecoll.torch as sct
from ddp_models import (QUICK, Parts, assert_replicas_equal, backward, batch_of, ddp_of, model_of, sgd, train,
                        vector_of)
from sparsecoll.torch._buckets import Buckets, Method
from sparsecoll.torch._layout import Layout
from sparsecoll.torch._state import chosen
from sparsecoll.torch._worker import Worker

STEPS = 20


class TwoProcesses(unittest.TestCase):
    """Runs in each of two processes, in the same order."""

    def state(self, ddp, **options):
        state = sct.DDPState(ddp, config=QUICK, **{"preset": "topka", **options})
        ddp.register_comm_hook(state, sct.hook)
        self.addCleanup(state.close)
        return state

    def test_replicas_stay_equal(self):
        for preset, options in (("topka", {}), ("micro", {}), ("topka", {"gradient_as_bucket_view": True}),
                                ("dgc", {"find_unused_parameters": True}), ("spardl", {"static_graph": True})):
            with self.subTest(preset, **options):
                ddp = ddp_of(**options)
                state = self.state(ddp, density=0.05, preset=preset)
                before = vector_of(ddp)
                optimizer = sgd(ddp)
                train(ddp, optimizer, [0])
                first = {bucket.parameters for bucket in state.stats()}
                train(ddp, optimizer, range(1, STEPS))
                assert_replicas_equal(ddp)
                self.assertGreater((vector_of(ddp) - before).abs().max(), 0.001)
                stats = state.stats()
                self.assertGreater(len(stats), 1)
                if "find_unused_parameters" not in options:
                    self.assertNotEqual({bucket.parameters for bucket in stats}, first)
                self.assertEqual(sorted(name for bucket in stats for name in bucket.parameters),
                                 sorted(name for name, _ in ddp.module.named_parameters()))
                sparse = [bucket for bucket in stats if bucket.plan == preset]
                self.assertTrue(sparse)
                for bucket in sparse:
                    self.assertLess(bucket.bytes_sent, bucket.bytes_dense)
                    self.assertGreater(bucket.milliseconds, 0)
                    self.assertGreaterEqual(bucket.counters.ops_completed, STEPS - 4)
                self.assertEqual(state.step, STEPS)

    def test_density_1_is_plain_ddp_up_to_rounding(self):
        """With backward passes that do not exchange, and all-reduces of the trainer's own between ours."""
        plain, ours = ddp_of(), ddp_of()
        self.state(ours, density=1)
        optimizers = [sgd(ddp) for ddp in (plain, ours)]
        for step in range(10):
            own = torch.full((1000,), float(dist.get_rank() + step))
            for ddp, optimizer in zip((plain, ours), optimizers):
                optimizer.zero_grad()
                with ddp.no_sync():
                    backward(ddp, 2 * step)
                before = dist.all_reduce(own, async_op=True) if ddp is ours else None
                backward(ddp, 2 * step + 1)
                if before:
                    after = dist.all_reduce(torch.zeros(10), async_op=True)
                    before.wait()
                    after.wait()
                    self.assertTrue(torch.equal(own, torch.full((1000,), 2.0 * step + 1)))
                optimizer.step()
            torch.testing.assert_close(vector_of(ours), vector_of(plain), rtol=1e-4, atol=1e-6)
        assert_replicas_equal(ours)

    def test_nothing_is_lost(self):
        """What was averaged, times the ranks, and what they keep are the gradients, whatever layout they came in."""
        ddp = ddp_of()
        state = self.state(ddp, density=0.02)
        delivered = {name: torch.zeros_like(value) for name, value in ddp.module.named_parameters()}
        alone, given = model_of(), {name: torch.zeros_like(value) for name, value in ddp.module.named_parameters()}
        for step in range(8):
            ddp.zero_grad()
            backward(ddp, step)
            for name, value in ddp.module.named_parameters():
                delivered[name] += 2 * value.grad
            for rank in range(2):
                alone.zero_grad()
                inputs, targets = batch_of(step, rank)
                torch.nn.functional.mse_loss(alone(inputs), targets).backward()
                for name, value in alone.named_parameters():
                    given[name] += value.grad
        residuals = state.state_dict()["residuals"]
        self.assertEqual(set(residuals), {"0.weight", "3.weight", "5.weight"})
        for name, total in given.items():
            kept = residuals.get(name, torch.zeros_like(total)).clone()
            dist.all_reduce(kept)
            torch.testing.assert_close(delivered[name] + kept, total, rtol=1e-4, atol=1e-6)

    def resumed(self, make):
        """The vectors after 12 steps at once and after 6, a new model that loads everything, and 6."""
        ddp, optimizer, _ = make()
        train(ddp, optimizer, range(12))
        whole = vector_of(ddp)
        ddp, optimizer, state = make()
        train(ddp, optimizer, range(6))
        saved = pickle.loads(pickle.dumps((ddp.module.state_dict(), optimizer.state_dict(), state.state_dict())))
        ddp, optimizer, state = make()
        for each, values in zip((ddp.module, optimizer, state), saved):
            each.load_state_dict(values)
        train(ddp, optimizer, range(6, 12))
        return whole, vector_of(ddp)

    def test_resume_has_the_same_bits(self):
        def hooked():
            ddp = ddp_of()
            return ddp, sgd(ddp), self.state(ddp, density=0.02)

        def attached():
            ddp = ddp_of()
            optimizer = sgd(ddp, momentum=0.9, nesterov=True)
            state = sct.attach(ddp, optimizer, 0.02, "topka", training_steps=4 * 8, config=QUICK)
            self.addCleanup(state.close)
            return ddp, optimizer, state

        for make in (hooked, attached):
            with self.subTest(make.__name__):
                whole, resumed = self.resumed(make)
                self.assertTrue(torch.equal(whole, resumed))

    def test_auto_is_the_default_and_decides_alike(self):
        """By the times that the steps here take, whatever these are."""
        for views in (False, True):
            ddp = ddp_of(gradient_as_bucket_view=views)
            optimizer = sgd(ddp, momentum=0.9)
            state = sct.attach(ddp, optimizer, config=QUICK)
            self.addCleanup(state.close)
            train(ddp, optimizer, range(40))
            assert_replicas_equal(ddp)
            choices = [None, None]
            dist.all_gather_object(choices, state.state_dict()["choices"])
            self.assertEqual(choices[0], choices[1])
            self.assertEqual(set(choices[0]), {"0.weight", "3.weight", "5.weight"})
            for bucket in state.stats():
                plans = {choices[0][name] for name in bucket.parameters if name in choices[0]}
                self.assertEqual(plans or {"dense"}, {bucket.plan})

    def test_momentum_of_what_is_dense_is_sgds(self):
        plain, ours = ddp_of(), ddp_of()
        optimizers = [sgd(ddp, momentum=0.9, nesterov=nesterov) for ddp, nesterov in ((plain, True), (ours, True))]
        train(plain, optimizers[0], range(3))
        train(ours, optimizers[1], range(3))  # what the optimiser has of momentum goes along
        state = sct.attach(ours, optimizers[1], keep_dense=lambda name, parameter: True, config=QUICK)
        self.addCleanup(state.close)
        self.assertEqual(optimizers[1].param_groups[0]["momentum"], 0)
        train(plain, optimizers[0], range(3, 10))
        train(ours, optimizers[1], range(3, 10))
        torch.testing.assert_close(vector_of(ours), vector_of(plain), rtol=1e-4, atol=1e-6)

    def test_replicas_stay_equal_where_a_kept_parameter_leaves_its_bucket(self):
        """From one that has a reducer into one that is all kept dense, at once and after a resume."""
        def attached():
            torch.manual_seed(2)
            ddp = ddp_of(torch.nn.Sequential(torch.nn.LayerNorm(20), torch.nn.Linear(20, 450),
                                             torch.nn.Linear(450, 600), torch.nn.Linear(600, 30)))
            optimizer = sgd(ddp, momentum=0.9)
            state = sct.attach(ddp, optimizer, 0.05, "topka", warmup_steps=0, config=QUICK)
            self.addCleanup(state.close)
            return ddp, optimizer, state

        ddp, optimizer, state = attached()
        train(ddp, optimizer, [0])
        self.assertEqual({bucket.plan for bucket in state.stats()}, {"topka"})
        train(ddp, optimizer, range(1, 4))
        self.assertEqual({bucket.reason for bucket in state.stats() if bucket.plan == "dense"}, {"kept dense"})
        assert_replicas_equal(ddp)
        saved = ddp.module.state_dict(), state.state_dict()
        ddp, optimizer, state = attached()
        ddp.module.load_state_dict(saved[0])
        state.load_state_dict(saved[1])
        train(ddp, optimizer, range(4, 8))
        assert_replicas_equal(ddp)

    def test_an_overflow_in_a_dense_step_with_momentum_arrives_everywhere(self):
        for nesterov in (False, True):
            ddp = ddp_of()
            optimizer = sgd(ddp, momentum=0.9, nesterov=nesterov)
            state = sct.attach(ddp, optimizer, warmup_steps=100, config=QUICK)
            self.addCleanup(state.close)
            state.set_loss_scale(8.0)
            backward(ddp, 0, 8)
            before = state.state_dict()["velocities"]
            optimizer.zero_grad()
            backward(ddp, 1, float("inf") if dist.get_rank() == 1 else 8)
            self.assertEqual({bucket.plan for bucket in state.stats()}, {"dense"})
            self.assertFalse(any(value.grad.isfinite().all() for value in ddp.parameters()))
            after = state.state_dict()["velocities"]
            self.assertTrue(before and all(torch.equal(value, after[name]) for name, value in before.items()))

    def test_attach_learns_with_sgd_and_adam(self):
        def loss(ddp):
            return sum(torch.nn.functional.mse_loss(ddp.module(batch_of(0, rank)[0]), batch_of(0, rank)[1]).item()
                       for rank in range(2))

        for make in (lambda ddp: sgd(ddp, momentum=0.9, weight_decay=1e-3),
                     lambda ddp: torch.optim.Adam(ddp.parameters(), lr=0.003)):
            ddp = ddp_of()
            optimizer = make(ddp)
            state = sct.attach(ddp, optimizer, 0.01, "topka", training_steps=5 * 8, config=QUICK)
            self.addCleanup(state.close)
            if isinstance(optimizer, torch.optim.SGD):
                self.assertAlmostEqual(optimizer.param_groups[0]["weight_decay"], 1e-2)
            first, densities = loss(ddp), set()
            for _ in range(30):
                train(ddp, optimizer, [0])
                densities |= {bucket.density for bucket in state.stats() if bucket.plan == "topka"}
            self.assertLess(loss(ddp), 0.9 * first)
            self.assertEqual(densities, {0.25, 0.0625, 0.015625, 0.01})
            assert_replicas_equal(ddp)

    def test_a_skipped_step_and_a_loss_scale(self):
        """A step that is given back is sent with the next: two steps of one gradient, or one of twice as much."""
        for views in (False, True):
            ddp = ddp_of(gradient_as_bucket_view=views)
            state = self.state(ddp, density=0.05, warmup_steps=0, keep_dense=lambda name, parameter: False)
            state.set_loss_scale(1024.0)
            inputs, targets = batch_of(0)
            for step in range(3):
                ddp.zero_grad()
                (1024 * torch.nn.functional.mse_loss(ddp(inputs), targets)).backward()
                total = torch.cat([value.grad.flatten() for value in ddp.parameters()]) / 1024
                if step < 2:
                    for value in ddp.parameters():
                        value.grad /= 1024
                    state.give_back(1 / 1024)
            alone = model_of()
            torch.nn.functional.mse_loss(alone(inputs), targets).backward()
            given = 3 * torch.cat([value.grad.flatten() for value in alone.parameters()])
            dist.all_reduce(given)
            kept = torch.cat([state.state_dict()["residuals"][name].flatten()
                              for name, _ in ddp.module.named_parameters()])
            dist.all_reduce(kept)
            torch.testing.assert_close(2 * total + kept, given, rtol=1e-3, atol=1e-5)

    def parts(self, used, ddp, step, factor=1.0):
        inputs, targets = batch_of(step)
        (factor * torch.nn.functional.mse_loss(ddp(inputs, used), targets)).backward()

    def test_what_no_rank_uses_stays_as_it_is(self):
        """Its residual, its velocity, and a gradient that an earlier step has left."""
        def kept():
            saved = state.state_dict()
            return {(kind, name): saved[kind][name] for kind in ("residuals", "velocities") for name in saved[kind]
                    if name.startswith("branches.1.")}

        for views in (False, True):
            ddp = ddp_of(Parts(), find_unused_parameters=True, gradient_as_bucket_view=views)
            optimizer = sgd(ddp, momentum=0.9)
            state = sct.attach(ddp, optimizer, 0.05, "topka", warmup_steps=0, config=QUICK)
            self.addCleanup(state.close)
            for step in range(3):
                optimizer.zero_grad()
                self.parts([0, 1], ddp, step)
            before = kept()
            self.assertTrue(all(value.abs().max() > 0 for value in before.values()))
            stale = {name: each.grad.clone() for name, each in ddp.module.branches[1].named_parameters()}
            for zeros in (False, True):
                begin = time.perf_counter()
                self.parts([0], ddp, 3)
                seconds = time.perf_counter() - begin
                for bucket in state.stats():
                    self.assertTrue(0 < bucket.milliseconds < 1000 * seconds)
                state.give_back()
                for name, each in ddp.module.branches[1].named_parameters():
                    self.assertTrue(torch.equal(each.grad, 0 * stale[name] if zeros else stale[name]), name)
                after = kept()
                further = after.pop(("residuals", "branches.1.bias"))  # its bucket was given back
                self.assertFalse(further.any())
                self.assertEqual(set(after), set(before))
                for name, value in before.items():
                    self.assertTrue(torch.equal(value, after[name]), name)
                optimizer.zero_grad(set_to_none=False)

    def test_a_gradient_of_zeros_is_one(self):
        """What a rank keeps of it is sent."""
        ddp = ddp_of(Parts(), find_unused_parameters=True)
        state = self.state(ddp, density=0.05, warmup_steps=0)
        self.parts([0, 1], ddp, 0)
        ddp.zero_grad()
        self.parts([0, 1], ddp, 1, 0.0)
        for name in ("branches.0.weight", "branches.1.weight", "head.weight"):
            self.assertGreater(ddp.module.get_parameter(name).grad.abs().max(), 0, name)
        self.assertTrue(state.state_dict()["residuals"])

    def test_parameters_that_only_a_pass_without_exchange_uses(self):
        """As in plain DDP, up to rounding: whether gradients are zeros or None before, and in views of the buckets.
        PyTorch 1 does not average them, nor does the hook then."""
        averaged = not torch.__version__.startswith("1.")
        for views in (False, True) if averaged else (False,):
            results = []
            for hook in (False, True):
                ddp = ddp_of(Parts(), find_unused_parameters=True, gradient_as_bucket_view=views)
                if hook:
                    self.state(ddp, density=1, warmup_steps=0)
                optimizer = sgd(ddp, weight_decay=0.1)
                for step in range(6):
                    optimizer.zero_grad(set_to_none=step % 3 == 0)
                    with ddp.no_sync():
                        self.parts([1] if dist.get_rank() == 0 else [0], ddp, 2 * step)
                    self.parts([0], ddp, 2 * step + 1)
                    if step != 4:  # gradients go on from there
                        optimizer.step()
                if averaged:
                    assert_replicas_equal(ddp)
                results.append(vector_of(ddp))
            torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)

    def test_a_static_graph_keeps_what_it_does_not_use(self):
        ddp = ddp_of(Parts(), static_graph=True)
        state = self.state(ddp, density=0.05)
        kept = torch.ones_like(ddp.module.branches[1].weight)
        state.load_state_dict({**state.state_dict(), "residuals": {"branches.1.weight": kept}})
        for step in range(4):
            ddp.zero_grad()
            self.parts([0], ddp, step)
        self.assertIn("topka", {bucket.plan for bucket in state.stats()})
        self.assertTrue(torch.equal(state.state_dict()["residuals"]["branches.1.weight"], kept))

    def test_half_precision_holds_the_average_and_not_the_sum(self):
        """Where a bucket becomes dense and takes its residual along: 50000 and 40000 from rank 0, 16000 from rank 1."""
        rank, buckets = dist.get_rank(), Buckets()
        buckets.residuals["a"], buckets.choices["a"] = torch.full((2000,), 40000.0 if rank == 0 else 0.0), "dense"
        gradient = torch.full((2000,), 50000.0 if rank == 0 else 16000.0, dtype=torch.float16)
        bucket = buckets.get(0, ("a",), [2000], [False], torch.float16)
        bucket.exchange(gradient, Method("auto", 0.01, 0), dist.group.WORLD, types.SimpleNamespace(size=2), True)
        self.assertEqual(gradient.tolist(), [53000.0 // 32 * 32] * 2000)

    def test_attach_is_all_or_nothing(self):
        for momentum in (0.9, 0.0):
            ddp, plain = ddp_of(), ddp_of()
            optimizers = [sgd(each, momentum=momentum, weight_decay=1e-3) for each in (ddp, plain)]
            for each, optimizer in zip((ddp, plain), optimizers):
                each.register_comm_hook(None, allreduce_hook)
                train(each, optimizer, range(3))
            with self.assertRaisesRegex(sparsecoll.InvalidUsage, "has a hook already"):
                sct.attach(ddp, optimizers[0], config=QUICK)
            for each, optimizer in zip((ddp, plain), optimizers):
                train(each, optimizer, range(3, 6))
            self.assertTrue(torch.equal(vector_of(ddp), vector_of(plain)))
        ddp = ddp_of()
        if dist.get_rank() == 0:
            ddp.register_comm_hook(None, allreduce_hook)
        with self.assertRaisesRegex(sparsecoll.Mismatch, "different hook$"):
            sct.attach(ddp, sgd(ddp), config=QUICK)

    def test_attach_leaves_the_optimiser_alone_where_pytorch_refuses_the_hook(self):
        ddp = ddp_of()
        optimizer = sgd(ddp, momentum=0.9, weight_decay=1e-3)
        train(ddp, optimizer, range(2))
        before = pickle.dumps(optimizer.state_dict())
        with unittest.mock.patch.object(ddp, "register_comm_hook", side_effect=RuntimeError("refused")):
            with self.assertRaisesRegex(RuntimeError, "^refused$") as caught:
                sct.attach(ddp, optimizer, config=QUICK)
        self.assertEqual(pickle.dumps(optimizer.state_dict()), before)
        self.addCleanup(sct.attach(ddp, optimizer, config=QUICK).close)
        self.assertTrue(caught)

    def test_what_is_refused(self):
        ddp = ddp_of()
        for options, text in (({"preset": "topk9"}, "no preset 'topk9'"), ({"density": 0}, "density of 0"),
                              ({"density_schedule": [0.5]}, "without schedule_steps")):
            with self.assertRaisesRegex(sparsecoll.InvalidArgument, text):
                sct.DDPState(ddp, **options)
        with self.assertRaisesRegex(sparsecoll.Mismatch, "different density$") as caught:
            sct.DDPState(ddp, density=0.1 * (1 + dist.get_rank()))
        self.assertEqual(caught.exception.field, "density")
        def adjust(params):
            if dist.get_rank() == 1:
                raise ValueError("not on this rank")
            params.clipNorm = 1

        with self.assertRaisesRegex((sparsecoll.Mismatch, ValueError), "different adjust|not on this rank"):
            sct.DDPState(ddp, adjust=adjust)
        state = self.state(ddp)
        with self.assertRaisesRegex(sparsecoll.InvalidUsage, "has a state already"):
            sct.DDPState(ddp)
        with self.assertRaisesRegex(RuntimeError, "register_comm_hook"):
            ddp.register_comm_hook(state, sct.hook)
        with self.assertRaisesRegex(sparsecoll.Unsupported, "python_reducer"):
            sct.hook(state, (0, torch.zeros(4)))
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "wants a DDPState"):
            sct.hook(None, None)
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "no DistributedDataParallel"):
            sct.DDPState(model_of())
        with self.assertRaisesRegex(TypeError, "save its state_dict"):
            pickle.dumps(state)
        train(ddp, sgd(ddp), range(5))
        saved = state.state_dict()
        for change, text in (({"rank": 1 - saved["rank"]}, "every rank loads its own"), ({"form": 0}, "no state_dict"),
                             ({"residuals": {"9.weight": torch.zeros(1)}}, "9.weight, which the model has not"),
                             ({"residuals": {"0.weight": torch.zeros(3)}}, r"0.weight is \(3,\)"),
                             ({"velocities": {"0.bias": torch.zeros(600)}}, "no momentum")):
            with self.assertRaisesRegex(sparsecoll.InvalidArgument, text):
                state.load_state_dict({**saved, **change})

        class OnGpu:
            class module:  # pylint: disable=invalid-name
                @staticmethod
                def named_parameters():
                    return [("weight", torch.nn.Parameter(torch.zeros(4, device="meta")))]

            def register_comm_hook(self):
                pass

        with self.assertRaisesRegex(sparsecoll.Unsupported, "weight is on meta"):
            sct.DDPState(OnGpu())
        other = ddp_of()
        parts = list(other.parameters())
        for options, text in (({"momentum": 0.9, "dampening": 0.1}, "dampening"),
                              ({"momentum": 0.9, "maximize": True}, "maximize")):
            with self.assertRaisesRegex(sparsecoll.Unsupported, text):
                sct.attach(other, sgd(other, **options))
        groups = [{"params": parts[:2], "momentum": 0.9}, {"params": parts[2:], "momentum": 0.5}]
        with self.assertRaisesRegex(sparsecoll.Unsupported, "different momentum"):
            sct.attach(other, torch.optim.SGD(groups, lr=0.1))
        with self.assertRaisesRegex(sparsecoll.Unsupported, "RMSprop with momentum"):
            sct.attach(other, torch.optim.RMSprop(parts, lr=0.1, momentum=0.9))
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "wants the optimiser"):
            sct.attach(other, [])
        with self.assertRaisesRegex(sparsecoll.Unsupported, "momentum of 1"):
            sct.attach(other, sgd(other, momentum=1.0))
        optimizer = sgd(other, momentum=0.9)
        before = optimizer.state_dict()
        attached = sct.attach(other, optimizer, config=QUICK)
        self.addCleanup(attached.close)
        optimizer.load_state_dict(before)
        with self.assertRaisesRegex(RuntimeError, "momentum again"):
            backward(other, 0)

    def test_a_state_without_a_deadline(self):
        ddp = ddp_of()
        self.addCleanup(sct.DDPState(ddp, config=sparsecoll.Config(op_timeout=float("inf"))).close)

    def test_the_others_learn_that_a_rank_cannot_go_on(self):
        for wrong in (ValueError("not on this rank"), SystemExit("not on this rank")):
            with self.subTest(wrong):
                self.cannot_go_on(wrong)

    def cannot_go_on(self, wrong):
        made = []

        def adjust(_):
            if made and dist.get_rank() == 1:
                raise wrong

        ddp = ddp_of()
        state = self.state(ddp, adjust=adjust)
        made.append(state)
        wanted = "rank 1" if dist.get_rank() == 0 else "not on this rank"
        with self.assertRaisesRegex((RuntimeError, ValueError), wanted):
            train(ddp, sgd(ddp), range(STEPS))
        dist.barrier()  # rank 1 has not closed its state until rank 0 knows
        if dist.get_rank() == 0:
            self.assertIsInstance(state.error, sparsecoll.PeerFailed)
            self.assertEqual(state.error.peer, 1)
        else:
            self.assertIsInstance(state.error, ValueError if isinstance(wrong, Exception) else sparsecoll.Aborted)
        with self.assertRaises((RuntimeError, ValueError)):  # and it stays so
            backward(ddp, 0)

    def test_a_step_that_ends_with_non_finite_is_undone(self):
        ddp = ddp_of()
        optimizer = sgd(ddp, momentum=0.9)
        state = sct.attach(ddp, optimizer, 0.05, "topka", warmup_steps=0,
                           config=dataclasses.replace(QUICK, non_finite="error"))
        self.addCleanup(state.close)
        state.set_loss_scale(8.0)
        for step in range(3):
            optimizer.zero_grad()
            backward(ddp, step, 8)
        before = state.state_dict()
        with self.assertRaisesRegex(RuntimeError, "non-finite"):
            backward(ddp, 3, float("inf") if dist.get_rank() == 1 else 8)
        self.assertIsNone(state.error)
        after = state.state_dict()
        for kind in ("residuals", "velocities"):
            for name, value in before[kind].items():
                self.assertTrue(torch.equal(value, after[kind][name]), f"{kind} of {name}")

    def test_non_finite_in_one_bucket_gives_back_what_the_others_have_sent(self):
        """In sparse steps it waits for the next one, dense ones leave no trace. A second give_back changes nothing."""
        for warmup_steps in (0, 100):
            ddp = ddp_of()
            optimizer = sgd(ddp, momentum=0.9)
            state = sct.attach(ddp, optimizer, 0.05, "topka", warmup_steps=warmup_steps,
                               config=dataclasses.replace(QUICK, non_finite="error"))
            self.addCleanup(state.close)
            train(ddp, optimizer, range(3))
            buckets = state.stats()
            self.assertGreater(len(buckets), 1)
            before, weights = state.state_dict(), vector_of(ddp)
            poisoned = dict(ddp.module.named_parameters())[buckets[1].parameters[0]]
            handle = poisoned.register_hook(lambda gradient: gradient * float("nan"))
            optimizer.zero_grad()
            with self.assertRaisesRegex(RuntimeError, "non-finite|NaN"):
                backward(ddp, 3)
            handle.remove()
            self.assertIsNone(state.error)
            after = state.state_dict()
            state.give_back()
            again = state.state_dict()
            alone = copy.deepcopy(ddp.module)
            alone.zero_grad()
            backward(alone, 3)
            own = {name: value.grad for name, value in alone.named_parameters()}
            for name in [name for bucket in buckets[:1] + buckets[2:] for name in bucket.parameters]:
                if warmup_steps != 0:
                    self.assertTrue(torch.equal(before["velocities"][name], after["velocities"][name]), name)
                elif name in before["residuals"]:  # its gradient waits for the next step, on one rank or another
                    waits = 0.9 * before["velocities"][name] + own[name] + before["residuals"][name]
                    missing = after["residuals"][name] - waits
                    dist.all_reduce(missing)
                    torch.testing.assert_close(missing, torch.zeros_like(missing), rtol=0, atol=1e-5)
            for kind in ("residuals", "velocities"):
                for name, value in after[kind].items():
                    self.assertTrue(torch.equal(value, again[kind][name]), f"{kind} of {name}")
                    self.assertTrue(value.isfinite().all(), f"{kind} of {name}")
            self.assertTrue(torch.equal(vector_of(ddp), weights))
            train(ddp, optimizer, range(4, 6))
            assert_replicas_equal(ddp)

    def test_a_dense_step_that_is_given_back_leaves_no_momentum(self):
        plain, ours = ddp_of(), ddp_of()
        optimizers = [sgd(ddp, momentum=0.9) for ddp in (plain, ours)]
        state = sct.attach(ours, optimizers[1], keep_dense=lambda name, parameter: True, config=QUICK)
        self.addCleanup(state.close)
        for ddp, optimizer in zip((plain, ours), optimizers):
            train(ddp, optimizer, range(4))
            optimizer.zero_grad()
            backward(ddp, 4, 1e6)  # a spike, which is skipped
            if ddp is ours:
                state.give_back()
            train(ddp, optimizer, range(5, 9))
        torch.testing.assert_close(vector_of(ours), vector_of(plain), rtol=1e-4, atol=1e-6)

    def test_what_is_given_back_of_tensors_kept_dense_survives_a_resume(self):
        def made():
            ddp = ddp_of()
            return ddp, sgd(ddp), self.state(ddp, density=0.02, warmup_steps=0)

        ddp, optimizer, state = made()
        train(ddp, optimizer, range(4))
        self.assertNotIn("0.bias", state.state_dict()["residuals"])
        optimizer.zero_grad()
        backward(ddp, 4)
        state.give_back()
        saved = copy.deepcopy((ddp.module.state_dict(), state.state_dict()))
        self.assertTrue(saved[1]["residuals"]["0.bias"].any())
        train(ddp, optimizer, range(5, 8))
        resumed, optimizer, state = made()
        resumed.module.load_state_dict(saved[0])
        state.load_state_dict(saved[1])
        train(resumed, optimizer, range(5, 8))
        self.assertTrue(torch.equal(vector_of(resumed), vector_of(ddp)))

    def test_dense_steps_at_first_are_as_many_when_training_is_resumed_among_them(self):
        def made():
            ddp = ddp_of()
            return ddp, sgd(ddp), self.state(ddp, density=0.02, warmup_steps=5)

        for steps in (1, 3, 6, 8):
            with self.subTest(steps=steps):
                ddp, optimizer, state = made()
                train(ddp, optimizer, range(steps))
                saved = copy.deepcopy((ddp.module.state_dict(), state.state_dict()))
                train(ddp, optimizer, range(steps, 10))
                resumed, optimizer, again = made()
                resumed.module.load_state_dict(saved[0])
                again.load_state_dict(saved[1])
                train(resumed, optimizer, range(steps, 10))
                self.assertTrue(torch.equal(vector_of(resumed), vector_of(ddp)))
        saved = again.state_dict()
        self.assertEqual(saved["dense_steps_left"], 0)
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "other numbers of dense steps"):
            again.load_state_dict({**saved, "dense_steps_left": -1})

    def test_a_forked_process_may_close_what_it_has_not(self):
        ddp = ddp_of()
        state = self.state(ddp, density=0.02, warmup_steps=0)
        train(ddp, sgd(ddp), range(2))
        child = os.fork()
        if child == 0:
            state.close()
            os._exit(7)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        train(ddp, sgd(ddp), range(2, 4))
        assert_replicas_equal(ddp)

    def test_an_optimiser_that_was_saved_behind_attach_tells_its_momentum(self):
        def attached(saved=None):
            ddp = ddp_of()
            optimizer = sgd(ddp, momentum=0.9, nesterov=True, weight_decay=1e-3)
            if saved is not None:
                optimizer.load_state_dict(saved)
            state = sct.attach(ddp, optimizer, keep_dense=lambda name, parameter: True, config=QUICK)
            self.addCleanup(state.close)
            return ddp, optimizer, state

        ddp, optimizer, state = attached()
        train(ddp, optimizer, range(3))
        _, resumed, state = attached(copy.deepcopy(optimizer.state_dict()))
        self.assertEqual((state._method.momentum, state._method.nesterov), (0.9, True))
        resumed.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))]})
        for group in resumed.param_groups:
            self.assertEqual((group["momentum"], group["nesterov"]), (0, False))
            self.assertAlmostEqual(group["weight_decay"], 1e-2)
        for group in resumed.param_groups:
            group["momentum"] = 0.9
        with self.assertRaisesRegex(sparsecoll.InvalidUsage, "in front of the exchange already"):
            sct.attach(ddp_of(), resumed)

    def test_a_state_without_velocities_leaves_those_of_the_optimiser(self):
        ddp = ddp_of()
        state = self.state(ddp, warmup_steps=0)
        optimizer = sgd(ddp, momentum=0.9)
        train(ddp, optimizer, range(3))
        saved = state.state_dict()
        self.assertEqual(saved["velocities"], {})
        ddp = ddp_of()
        fresh = sgd(ddp, momentum=0.9)
        fresh.load_state_dict(optimizer.state_dict())
        state = sct.attach(ddp, fresh, preset="topka", config=QUICK)
        self.addCleanup(state.close)
        before = state.state_dict()["velocities"]
        self.assertTrue(before)
        state.load_state_dict(saved)
        after = state.state_dict()["velocities"]
        self.assertTrue(all(torch.equal(value, after[name]) for name, value in before.items()))

    def test_a_state_that_is_broken_on_one_rank_changes_nothing(self):
        ddp = ddp_of()
        state, optimizer = self.state(ddp, warmup_steps=0), sgd(ddp)
        train(ddp, optimizer, range(3))
        saved = state.state_dict()
        with self.assertRaises(sparsecoll.Mismatch if dist.get_rank() == 0 else TypeError):
            state.load_state_dict(saved if dist.get_rank() == 0 else None)
        self.assertIsNone(state.error)
        train(ddp, optimizer, range(3, 5))
        assert_replicas_equal(ddp)

    def test_a_state_from_before_the_first_step_has_no_momentum(self):
        ddp = ddp_of()
        optimizer = sgd(ddp, momentum=0.9)
        state = sct.attach(ddp, optimizer, preset="topka", config=QUICK)
        self.addCleanup(state.close)
        first = state.state_dict()
        train(ddp, optimizer, range(3))
        self.assertTrue(state.state_dict()["velocities"])
        state.load_state_dict(first)
        self.assertEqual(state.state_dict()["velocities"], {})

    def test_what_a_state_has_of_a_frozen_layer_is_dropped(self):
        ddp = ddp_of()
        state = self.state(ddp, warmup_steps=0)
        train(ddp, sgd(ddp), range(3))
        saved = state.state_dict()
        module = model_of()
        module[0].requires_grad_(False)
        ddp = ddp_of(module)
        state = self.state(ddp, warmup_steps=0)
        state.load_state_dict(saved)
        kept = state.state_dict()["residuals"]
        self.assertEqual(set(kept), {name for name in saved["residuals"] if not name.startswith("0.")})
        self.assertTrue(set(kept) and all(torch.equal(value, saved["residuals"][name]) for name, value in kept.items()))
        saved["residuals"]["elsewhere"] = torch.zeros(3)
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "elsewhere, which the model has not"):
            state.load_state_dict(saved)

    def test_ctrl_c_in_a_dense_step_leaves_close_free(self):
        """The thread stays in gloo until rank 1, which does not come, closes its own state."""
        def threads():
            return [each for each in threading.enumerate() if each.name == "sparsecoll" and each not in before]

        before = threading.enumerate()
        ddp = ddp_of()
        state = self.state(ddp, warmup_steps=100)
        train(ddp, sgd(ddp), range(3))  # DDP waits for the ranks itself when it cuts its buckets anew
        if dist.get_rank() == 0:
            threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            with self.assertRaises(KeyboardInterrupt):
                backward(ddp, 3)
                time.sleep(60)
            state.close()
            self.assertTrue(threads())
        dist.barrier()
        state.close()
        for thread in threads():
            thread.join()

    def test_a_state_that_is_dropped_takes_its_thread_along(self):
        ddp = ddp_of()
        state = sct.DDPState(ddp, density=0.1, config=QUICK)
        ddp.register_comm_hook(state, sct.hook)
        train(ddp, sgd(ddp), range(4))
        thread, state = state._worker._thread, weakref.ref(state)
        del ddp
        gc.collect()
        thread.join(60)
        self.assertFalse(thread.is_alive())
        self.assertIsNone(state())
        dist.barrier()

    def test_a_constructor_that_fails_leaves_nothing(self):
        def fails():
            with self.assertRaises(sparsecoll.Error):
                sct.DDPState(ddp, config=sparsecoll.Config(interface="nosuch0"))
            with self.assertRaises(sparsecoll.Mismatch):
                sct.DDPState(ddp, density=0.1 * (1 + dist.get_rank()))
            dist.barrier()

        ddp = ddp_of()
        fails()
        before = launch.threads_and_descriptors()
        for _ in range(3):
            fails()
        launch.assert_no_more_than(before)

    def test_a_closed_state_says_so(self):
        state = self.state(ddp_of())
        saved = state.state_dict()
        state.close()
        for use in (state.stats, state.state_dict, state.give_back, lambda: state.set_loss_scale(2.0),
                    lambda: state.load_state_dict(saved)):
            with self.assertRaisesRegex(sparsecoll.InvalidUsage, "the state is closed"):
                use()

    def test_threads_and_descriptors_go_with_close(self):
        def use():
            ddp = ddp_of()
            state = sct.DDPState(ddp, density=0.1, config=QUICK)
            ddp.register_comm_hook(state, sct.hook)
            train(ddp, sgd(ddp), range(4))
            state.close()
            state.close()
            with self.assertRaisesRegex(RuntimeError, "closed"):
                backward(ddp, 4)

        gc.collect()
        gc.disable()  # close does not leave it to the collector
        self.addCleanup(gc.enable)
        use()
        before = launch.threads_and_descriptors()
        for _ in range(3):
            use()
        launch.assert_no_more_than(before)


def killed():
    """Rank 1 dies while rank 0 waits for it, in steps that are sparse already."""
    ddp = ddp_of()
    state = sct.DDPState(ddp, 0.05, "topka", config=QUICK)
    ddp.register_comm_hook(state, sct.hook)
    optimizer = sgd(ddp)
    train(ddp, optimizer, range(6))
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        train(ddp, optimizer, range(6, 100))
    except RuntimeError as error:
        print(f"{type(state.error).__name__} of rank {state.error.peer}: {error}")
        assert "PeerFailed" in str(error) and "rank 1" in str(error), error


class Starts(unittest.TestCase):
    def test_two_processes(self):
        for status, output in launch.finish(launch.start(__file__, ["pair"], 2)):
            self.assertEqual(status, 0, output)
            self.assertIn("OK", output)

    def test_a_killed_rank_is_named(self):
        first, second = launch.finish(launch.start(__file__, ["killed"], 2))
        self.assertEqual(second[0], -signal.SIGKILL, second[1])
        self.assertEqual(first[0], 0, first[1])
        self.assertIn("PeerFailed of rank 1", first[1])


class Alone(unittest.TestCase):
    """Buckets of one rank, without DDP."""

    def setUp(self):
        [self.communicator] = sparsecoll.Communicator.threads(1)
        self.addCleanup(self.communicator.close)

    def exchange(self, buckets, names, vector, method):
        lengths = [2000 if name != "c" else 50 for name in names]
        kept = [name == "c" for name in names]
        bucket = buckets.get(0, names, lengths, kept, vector.dtype)
        bucket.exchange(vector, method, None, self.communicator, True)
        return bucket

    def test_a_bucket_without_elements_has_nothing_to_select(self):
        vector = torch.zeros(0)
        bucket = Buckets().get(0, ("a",), [0], [False], vector.dtype)
        self.assertFalse(bucket._wants_reducer(Method("topka", 0.01, 0), True))

    def test_momentum_is_the_librarys(self):
        for nesterov, clip in ((False, 0), (True, 0), (False, 3)):
            buckets, dense = Buckets(), Buckets()
            method = Method("topka", 0.01, 0, momentum=0.9, nesterov=nesterov, input_scale=1 / 4, output_scale=4,
                            adjust=lambda params, clip=clip: setattr(params, "clipNorm", clip))
            segments = [sparsecoll.Segment(2000, 0.01), sparsecoll.Segment(50, dense=True)]
            wanted = sparsecoll.Reducer(self.communicator, 2050, "float64", density=0.01, op="avg", segments=segments,
                                        momentum=0.9, nesterov=nesterov, clip_norm=clip, input_scale=1 / 4,
                                        output_scale=4)
            for step in range(12):
                gradient = torch.randn(2050, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
                out, own = gradient.clone(), gradient[2000:].clone()
                bucket = self.exchange(buckets, ("a", "c"), out, method)
                wanted.run(gradient)
                self.assertTrue(torch.equal(out, gradient))
                if not clip:  # which counts for a bucket
                    moved = dense.get(0, ("c",), [50], [True], own.dtype)._moved(own, method, [])
                    self.assertTrue(torch.equal(moved * 4, gradient[2000:]))
            torch.testing.assert_close(bucket.residual, torch.from_numpy(wanted.residual()))

    def test_momentum_is_not_adjusted(self):
        for field, value in (("momentum", 0.5), ("flags", sparsecoll._abi.SPARSECOLL_NESTEROV)):
            method = Method("topka", 0.01, 0, adjust=lambda params, field=field, value=value:
                            setattr(params, field, value))
            with self.assertRaisesRegex(sparsecoll.InvalidArgument, "attach takes it from the optimiser"):
                method.read_adjust()

    def test_another_layout_keeps_residuals_and_velocities(self):
        layouts = [("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c")]
        for momentum in (0, 0.5):
            cut_anew, same = Buckets(), Buckets()
            method = Method("topka", 0.01, 0, momentum=momentum)
            for step in range(9):
                random = torch.Generator().manual_seed(step)
                pieces = {name: torch.randn(50 if name == "c" else 2000, generator=random) for name in "abc"}
                outs = []
                for buckets, names in ((cut_anew, layouts[step // 3]), (same, layouts[0])):
                    vector = torch.cat([pieces[name] for name in names])
                    self.exchange(buckets, names, vector, method)
                    outs.append(dict(zip(names, vector.split([len(pieces[name]) for name in names]))))
                for name in "abc":
                    self.assertTrue(torch.equal(outs[0][name], outs[1][name]), (step, name))
            for kept, wanted in zip(cut_anew.snapshot(), same.snapshot()):
                self.assertEqual(set(kept), set(wanted))
                for name, value in kept.items():
                    self.assertTrue(torch.equal(value, wanted[name]), name)

    def test_the_thread_lives_on_whatever_a_job_raises(self):
        def leaves():
            raise SystemExit(3)

        worker = Worker("worker")
        with self.assertRaises(SystemExit):
            worker.call(leaves, 60)
        self.assertEqual(worker.call(lambda: 4, 60), 4)
        worker.close()

    def test_ranks_that_take_over_nothing_send_as_the_others_do(self):
        saved = {"form": 2, "step": 3, "rank": 0, "ranks": 1, "density": 0.1, "choices": {},
                 "residuals": {"a": torch.full((2, 3), 4.0)}, "velocities": {}}
        layouts = {"a": Layout(torch.zeros(2, 3))}
        taken = [chosen([saved], 2, rank, 2, 0.1, lambda state: None, layouts)[1] for rank in range(2)]
        self.assertEqual([each["a"].tolist() for each in taken], [[8.0] * 6, [0.0] * 6])

    def test_an_optimiser_may_get_parameters_later(self):
        optimizers, undone = {"a": "one", "c": "other"}, []
        buckets = Buckets(lambda: optimizers)
        bucket = buckets.get(0, ("a", "b", "c"), [1, 1, 1], [False] * 3, torch.float32)
        bucket.undo = undone.append
        optimizers["b"] = "one"
        bucket.overflowed = {"a"}
        buckets.settle(buckets.overflowed())
        self.assertEqual(undone, [{"a", "b"}])

    def test_a_velocity_keeps_no_nan(self):
        buckets, method = Buckets(), Method("topka", 0.01, 0, momentum=0.5)
        gradient = torch.ones(2050)
        gradient[7] = float("nan")
        bucket = self.exchange(buckets, ("a", "c"), gradient, method)
        self.assertTrue(gradient[7].isnan())
        self.assertTrue(bucket.velocity().isfinite().all() and bucket.residual.isfinite().all())


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] in (["pair"], ["killed"]):
        dist.init_process_group("gloo")
        if sys.argv[1] == "killed":
            killed()
            os._exit(0)  # gloo's own threads may wait for the rank that is gone
        unittest.main(argv=[sys.argv[0], "TwoProcesses", *sys.argv[2:]], verbosity=2)
    unittest.main(argv=[sys.argv[0], *(sys.argv[1:] or ["Starts", "Alone"])], verbosity=2)
