#!/usr/bin/env python3
"""The hook for DistributedDataParallel beside PyTorch's other features, on two ranks: accumulation, graphs, compiled
and frozen parts, ddp.join(), types of gradients, and time-outs of process groups."""
import contextlib
import copy
import datetime
import pickle
import sys
import unittest

import needs_gloo  # pylint: disable=unused-import  (it skips this)
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_wrapper
from torch.utils.checkpoint import checkpoint

import sparsecoll
import sparsecoll.torch as sct
from ddp_models import (QUICK, Parts, assert_replicas_equal, backward, batch_of, ddp_of, hooked, in_ranks, model_of,
                        run_tests, sgd, train, vector_of)
from sparsecoll.torch._gather import complete, waits_as

OLD = torch.__version__.startswith("1.")
RANKS = 2


class Cast(torch.nn.Module):
    """Two layers with parameters of another type than that of their sums, which PyTorch 1 has not for half precision on
    the CPU."""

    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(5)
        self.inner = torch.nn.Parameter(torch.randn(300, 20).div(5).to(dtype))
        self.outer = torch.nn.Parameter(torch.randn(30, 300).div(20).to(dtype))

    def forward(self, inputs):
        return torch.relu(inputs @ self.inner.float().t()) @ self.outer.float().t()


class Own(torch.nn.Module):
    """Its forward is none of PyTorch's, which would not be compiled."""

    def __init__(self):
        super().__init__()
        self.layers = model_of()

    def forward(self, inputs):
        return torch.sin(self.layers(inputs))


class Checkpointed(torch.nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.first, self.rest, self.reentrant = torch.nn.Linear(20, 20), model_of(), reentrant

    def forward(self, inputs):
        return checkpoint(self.rest, self.first(inputs), use_reentrant=self.reentrant)


class TwoRanks(unittest.TestCase):
    """Runs in each of two processes, in the same order."""

    def state(self, ddp, **options):
        state = hooked(ddp, **options)
        self.addCleanup(state.close)
        return state

    def assert_as_plain(self, module, run, **options):
        """At density 1, and with the optimiser's momentum in front of the exchange, as without the hook, up to
        rounding. run(ddp, optimizer)."""
        for attached in (False, True):
            results = []
            for hook in (False, True):
                ddp = ddp_of(copy.deepcopy(module), **options)
                optimizer = sgd(ddp, momentum=0.5)
                if hook and attached:
                    state = sct.attach(ddp, optimizer, 1, "topka", warmup_steps=1, config=QUICK,
                                       keep_dense=lambda name, parameter: True)
                    self.addCleanup(state.close)
                elif hook:
                    self.state(ddp, density=1, warmup_steps=1)
                run(ddp, optimizer)
                assert_replicas_equal(ddp)
                results.append(vector_of(ddp))
            torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)

    def test_accumulation_in_any_graph_and_view(self):
        def run(ddp, optimizer):
            for step in range(7):
                optimizer.zero_grad()
                for part in range(3 if step else 1):  # PyTorch learns a static graph in a first pass that exchanges
                    with ddp.no_sync() if step and part < 2 else contextlib.nullcontext():
                        backward(ddp, 3 * step + part)
                optimizer.step()

        graphs = [{}, {"find_unused_parameters": True}]
        if not OLD:  # PyTorch 1 has no no_sync with a static graph
            graphs.append({"static_graph": True})
        for views in (False, True):
            for options in graphs:
                with self.subTest(views=views, **options):
                    self.assert_as_plain(model_of(), run, gradient_as_bucket_view=views, **options)

    def test_activation_checkpointing(self):
        def run(ddp, optimizer):
            train(ddp, optimizer, range(5))

        for reentrant, options in ((False, {}), (True, {"static_graph": True})):
            with self.subTest(reentrant=reentrant):
                self.assert_as_plain(Checkpointed(reentrant), run, **options)

    def test_memory_formats(self):
        """DDP lays a parameter into its bucket as it lies in memory."""
        def model(memory_format):
            torch.manual_seed(3)
            return torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, bias=False), torch.nn.Flatten(),
                                       torch.nn.Linear(16 * 16, 4, bias=False)).to(memory_format=memory_format)

        def step(ddp, optimizer, number):
            torch.manual_seed(10 * number + dist.get_rank())
            optimizer.zero_grad()
            ddp(torch.randn(4, 8, 6, 6)).pow(2).mean().backward()
            optimizer.step()

        formats = (torch.contiguous_format, torch.channels_last)
        for memory_format in formats:
            with self.subTest(memory_format=memory_format):
                results = []
                for attached in (False, True):
                    module = model(memory_format)
                    ddp = ddp_of(module)
                    optimizer = sgd(ddp, momentum=0.9)
                    for number in range(5):
                        if attached and number == 3:  # the optimiser has velocities by then
                            ddp = ddp_of(module)
                            state = sct.attach(ddp, optimizer, 0.01, "topka", warmup_steps=4, config=QUICK)
                            self.addCleanup(state.close)
                        step(ddp, optimizer, number)
                    results.append(vector_of(ddp))
                torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)
        saved, results = [], []
        for memory_format in formats:
            ddp = ddp_of(model(memory_format))
            state = self.state(ddp, density=0.1, warmup_steps=0, keep_dense=lambda name, parameter: False)
            step(ddp, sgd(ddp), 0)
            saved.append(state.state_dict())
            state.close()
        for name, value in saved[0]["residuals"].items():
            self.assertEqual(value.shape, saved[1]["residuals"][name].shape)
            self.assertGreater(value.count_nonzero(), 0)
            torch.testing.assert_close(value, saved[1]["residuals"][name], rtol=1e-4, atol=1e-6)
        for memory_format in formats:  # the state of the other format
            ddp = ddp_of(model(memory_format))
            state = self.state(ddp, density=0.1, warmup_steps=0, keep_dense=lambda name, parameter: False)
            state.load_state_dict(saved[memory_format == torch.contiguous_format])
            step(ddp, sgd(ddp), 1)
            results.append(vector_of(ddp))
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)

    def test_parameters_without_elements(self):
        class Empty(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers, self.nothing = model_of(), torch.nn.Parameter(torch.zeros(0))

            def forward(self, inputs):
                return self.layers(inputs) + self.nothing.sum()

        def run(ddp, optimizer):
            train(ddp, optimizer, range(5))

        self.assert_as_plain(Empty(), run)

    def test_parameters_that_are_frozen_later(self):
        """With find_unused_parameters they stay; without, DDP itself ends the next step, and close still returns."""
        def run(ddp, optimizer):
            for step in range(8):
                for parameter in ddp.module.branches[1].parameters():
                    parameter.requires_grad_(step < 4)
                optimizer.zero_grad(set_to_none=True)
                inputs, targets = batch_of(step)
                torch.nn.functional.mse_loss(ddp(inputs, [0, 1]), targets).backward()
                optimizer.step()

        self.assert_as_plain(Parts(), run, find_unused_parameters=True)
        ddp = ddp_of()
        state = self.state(ddp)
        train(ddp, sgd(ddp), range(4))
        ddp.module[3].weight.requires_grad_(False)
        with self.assertRaisesRegex(RuntimeError, "Expected to have finished reduction"):
            train(ddp, sgd(ddp), range(4, 6))
        state.close()

    def test_parameters_that_were_frozen_before(self):
        module = model_of()
        module[0].requires_grad_(False)
        self.assert_as_plain(module, lambda ddp, optimizer: train(ddp, optimizer, range(5)))

    def test_parameters_that_ddp_ignores(self):
        module = model_of()
        torch.nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, ["0.weight"])
        ddp = ddp_of(module)
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "ddp does not average.*that DDP ignores"):
            sct.attach(ddp, sgd(ddp, momentum=0.9), config=QUICK)
        state = self.state(ddp, density=0.05)
        train(ddp, sgd(ddp), range(4))
        self.assertEqual(set(state.state_dict()["residuals"]), {"3.weight", "5.weight"})

    def test_join(self):
        """Rank 1 has more inputs."""
        def run(ddp, optimizer):
            with ddp.join():
                train(ddp, optimizer, range(5 + 3 * dist.get_rank()))

        for views in (False, True):
            self.assert_as_plain(model_of(), run, gradient_as_bucket_view=views)
        self.assert_as_plain(model_of(), run, find_unused_parameters=True)
        ddp = ddp_of()
        state = self.state(ddp, density=0.02)
        run(ddp, sgd(ddp))
        assert_replicas_equal(ddp)
        self.assertEqual(state.step, 8)
        self.assertIn("topka", {bucket.plan for bucket in state.stats()})

    def test_what_join_cannot_have(self):
        ddp = ddp_of()
        self.state(ddp)
        with self.assertRaisesRegex(RuntimeError, "divide_by_initial_world_size=False"):
            with ddp.join(divide_by_initial_world_size=False):
                train(ddp, sgd(ddp), range(2))
        ddp = ddp_of()
        self.state(ddp).set_loss_scale(8.0)
        with self.assertRaisesRegex(RuntimeError, "join.. with set_loss_scale"):
            with ddp.join():
                train(ddp, sgd(ddp), range(2))

    def test_steps_behind_join_are_as_ever(self):
        ddp = ddp_of()
        with ddp.join(divide_by_initial_world_size=False):
            train(ddp, sgd(ddp), range(2 + dist.get_rank()))
        state = self.state(ddp, density=0.02)
        train(ddp, sgd(ddp), range(4))
        with ddp.join():
            train(ddp, sgd(ddp), range(2 + dist.get_rank()))
        state.set_loss_scale(8.0)
        train(ddp, sgd(ddp), range(4))
        self.assertEqual(state.step, 11)
        assert_replicas_equal(ddp)
        with self.assertRaisesRegex(RuntimeError, "join.. with set_loss_scale"):
            with ddp.join():
                train(ddp, sgd(ddp), range(1))

    @unittest.skipIf(OLD, "this PyTorch does not compile")
    def test_compiled_models(self):
        """They learn as the model that is not compiled. One of them becomes machine code, which takes seconds."""
        from torch._dynamo.utils import counters

        def trained(what, backend):
            torch._dynamo.reset()
            counters.clear()
            module = Own()
            if what == "model":
                module = torch.compile(module, backend=backend)
            # The compiler takes no buckets of less than 1 MB.
            ddp = torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=1)
            called = torch.compile(ddp, backend=backend) if what == "ddp" else ddp
            state = self.state(called, density=0.02)
            with self.assertRaisesRegex(sparsecoll.InvalidUsage, "has a state already"):
                sct.DDPState(ddp)

            def learn(inputs, targets):
                torch.nn.functional.mse_loss(called(inputs), targets).backward()

            if what == "step":
                learn = torch.compile(learn, backend=backend)
            optimizer = sgd(called)
            for step in range(6):
                optimizer.zero_grad()
                learn(*batch_of(step))
                optimizer.step()
            self.assertEqual(state.step, 6)
            self.assertIn("topka", {bucket.plan for bucket in state.stats()})
            assert_replicas_equal(ddp)
            self.assertEqual(bool(counters["stats"]["unique_graphs"]), what != "nothing")
            self.assertNotIn("GradBucket", str(counters["graph_break"]))  # it looks into the model, not into the hook
            return vector_of(ddp)

        plain = trained("nothing", None)
        for what, backend in (("ddp", "aot_eager"), ("model", "aot_eager"), ("step", "aot_eager"), ("ddp", "inductor")):
            with self.subTest(what=what, backend=backend):
                torch.testing.assert_close(trained(what, backend), plain, rtol=1e-3, atol=1e-4)

    @unittest.skipIf(OLD, "this PyTorch does not compile")
    def test_reducers_of_other_kinds_are_refused(self):
        import torch._dynamo

        with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
            ddp = ddp_of()
        with self.assertRaisesRegex(sparsecoll.Unsupported, "python_reducer.*optimize_ddp.*compiled autograd"):
            sct.DDPState(ddp)
        with self.assertRaisesRegex(sparsecoll.Unsupported, "skip_all_reduce_unused_params"):
            sct.DDPState(ddp_of(skip_all_reduce_unused_params=True))

    def given(self, module, steps):
        """The sum over ranks of the gradients that `module` gives."""
        alone, total = copy.deepcopy(module), None
        for step in steps:
            for rank in range(RANKS):
                alone.zero_grad()
                inputs, targets = batch_of(step, rank)
                torch.nn.functional.mse_loss(alone(inputs), targets).backward()
                gradients = torch.cat([each.grad.flatten().float() for each in alone.parameters()])
                total = gradients if total is None else total + gradients
        return total

    def kept(self, ddp, state):
        residuals = state.state_dict()["residuals"]
        kept = torch.cat([residuals[name].flatten() if name in residuals else torch.zeros(each.numel())
                          for name, each in ddp.module.named_parameters()])
        dist.all_reduce(kept)
        return kept

    def test_gradients_in_half_precision(self):
        """Nothing is lost but by rounding what arrives; residuals are in float32."""
        for dtype in (torch.float16, torch.bfloat16):
            with self.subTest(dtype):
                if OLD and dtype == torch.bfloat16:
                    with self.assertRaises(RuntimeError):  # PyTorch 1's gloo has none
                        ddp_of(Cast(dtype))
                    continue
                ddp = ddp_of(Cast(dtype))
                given = self.given(ddp.module, range(6))
                state, delivered = self.state(ddp, density=0.05), torch.zeros_like(given)
                for step in range(6):
                    ddp.zero_grad()
                    backward(ddp, step)
                    delivered += RANKS * torch.cat([each.grad.flatten().float() for each in ddp.parameters()])
                self.assertEqual({value.dtype for value in state.state_dict()["residuals"].values()}, {torch.float32})
                self.assertIn("topka", {bucket.plan for bucket in state.stats()})
                torch.testing.assert_close(delivered + self.kept(ddp, state), given, rtol=0.03, atol=1e-3)
                train(ddp, sgd(ddp), range(3))
                assert_replicas_equal(ddp)
                with self.assertRaisesRegex(sparsecoll.Unsupported, f"{dtype}.*autocast.*DDPState"):
                    sct.attach(ddp, sgd(ddp, momentum=0.9))

    def test_buckets_that_a_wrapper_casts(self):
        """A step that is given back after unscaling is the next step's, whatever the gradients are views of."""
        for views in (False, True):
            ddp = ddp_of(Cast(torch.float32), gradient_as_bucket_view=views)
            state = sct.DDPState(ddp, 0.05, "topka", warmup_steps=0, config=QUICK)
            self.addCleanup(state.close)
            ddp.register_comm_hook(state, fp16_compress_wrapper(sct.hook))
            state.set_loss_scale(64.0)
            for step in range(3):
                ddp.zero_grad()
                backward(ddp, 0, 64)
                for each in ddp.parameters():
                    each.grad /= 64
                arrived = torch.cat([each.grad.flatten() for each in ddp.parameters()])
                if step < 2:
                    state.give_back(1 / 64)
            self.assertTrue(arrived.any())
            torch.testing.assert_close(RANKS * arrived + self.kept(ddp, state),
                                       self.given(ddp.module, [0, 0, 0]), rtol=0.01, atol=1e-4)

    def test_autocast(self):
        def run(ddp, optimizer):
            for step in range(5):
                optimizer.zero_grad()
                inputs, targets = batch_of(step)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    outputs = ddp(inputs)
                torch.nn.functional.mse_loss(outputs.float(), targets).backward()
                optimizer.step()

        self.assert_as_plain(torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 30)),
                             run)

    def test_types_that_are_refused_and_taken(self):
        class Wave(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.phase = torch.nn.Parameter(torch.ones(5000, dtype=torch.complex64))

        if not OLD:  # PyTorch 1's gloo has no complex numbers
            with self.assertRaisesRegex(sparsecoll.Unsupported, "^phase is of torch.complex64.*view_as_complex"):
                sct.DDPState(ddp_of(Wave()))
        ddp = ddp_of()
        state = self.state(ddp, density=0.02)
        train(ddp, sgd(ddp), range(4))
        saved, results = state.state_dict(), []
        model = copy.deepcopy(ddp.module.state_dict())
        for cast in (lambda value: value, lambda value: value.double()):
            ddp.module.load_state_dict(model)
            state.load_state_dict({**saved, "residuals": {name: cast(value)
                                                          for name, value in saved["residuals"].items()}})
            train(ddp, sgd(ddp), range(4, 6))
            results.append(vector_of(ddp))
        self.assertTrue(torch.equal(*results))
        for wrong, kind in ((saved["residuals"]["0.weight"].long(), "torch.int64"), ([1.0], "list")):
            with self.assertRaisesRegex(sparsecoll.InvalidArgument, f"residuals of 0.weight are {kind}.*were saved"):
                state.load_state_dict({**saved, "residuals": {"0.weight": wrong}})

    def test_resume_across_a_change_of_the_loss_scale(self):
        """Into a new DDP object, whose buckets are cut anew, and over a step that overflows: the same bits."""
        def scaled(ddp, optimizer, state, steps):
            for step in steps:
                scale = 1024.0 if step < 6 else 256.0 if step < 8 else 4096.0
                state.set_loss_scale(scale)
                optimizer.zero_grad()
                overflows = step == 5
                backward(ddp, step, float("inf") if overflows and dist.get_rank() == 1 else scale)
                for each in ddp.parameters():
                    each.grad /= scale
                if not overflows:
                    optimizer.step()

        def made(momentum):
            ddp = ddp_of()
            optimizer = sgd(ddp, momentum=momentum)
            state = sct.attach(ddp, optimizer, 0.02, "topka", config=QUICK)
            self.addCleanup(state.close)
            return ddp, optimizer, state

        for momentum in (0.0, 0.9):
            whole = made(momentum)
            scaled(*whole, range(11))
            parts = made(momentum)
            scaled(*parts, range(6))  # the last of them is skipped, and the scale falls behind it
            saved = pickle.loads(pickle.dumps([parts[0].module.state_dict(), *[each.state_dict()
                                                                                for each in parts[1:]]]))
            again = made(momentum)
            for each, values in zip((again[0].module, *again[1:]), saved):
                each.load_state_dict(values)
            scaled(*again, range(6, 11))
            self.assertTrue(torch.equal(vector_of(again[0]), vector_of(whole[0])))
            self.assertTrue(again[2].state_dict()["residuals"])

    def test_a_rank_that_has_given_up_is_not_the_lost_one(self):
        """But nobody waits for it."""
        state = sct.DDPState(ddp_of(), 0.05, "topka", config=QUICK)
        self.addCleanup(state.close)
        late = RuntimeError("timed out")

        def fail(async_op):
            raise late

        self.assertEqual(state.communicator.peer_failure().code, 0)
        dist.barrier()
        if dist.get_rank() == 1:
            state.communicator.abort()
        else:
            with self.assertRaises(RuntimeError) as caught:
                complete(state.communicator, fail)
            self.assertIs(caught.exception, late)
            with self.assertRaisesRegex(sparsecoll.PeerFailed, "^rank 1 aborted its communicator") as caught:
                complete(state.communicator, dist.all_reduce, torch.zeros(1), group=state._group)
            self.assertEqual((caught.exception.peer, caught.exception.under_way), (1, True))
        dist.barrier()
        if dist.get_rank() == 1:  # what was left under way ends
            dist.all_reduce(torch.zeros(1), group=state._group)
        dist.barrier()

    def test_a_rank_that_has_closed_its_state_is_named_in_a_dense_step(self):
        ddp = ddp_of()
        state = self.state(ddp, warmup_steps=100)
        train(ddp, sgd(ddp), range(3))
        dist.barrier()
        if dist.get_rank() == 1:
            state.close()
        else:
            with self.assertRaisesRegex(RuntimeError, "rank 1 destroyed its communicator"):
                backward(ddp, 3)
            self.assertIsInstance(state.error, sparsecoll.PeerFailed)
            self.assertEqual(state.error.peer, 1)
        dist.barrier()

    def test_a_rank_waits_as_long_as_its_process_group(self):
        group = dist.new_group(range(RANKS), timeout=datetime.timedelta(seconds=5))
        waits = waits_as(group, None).op_timeout
        self.assertEqual(waits, 5)
        self.assertEqual(waits_as(group, sparsecoll.Config(op_timeout=None)).op_timeout, waits)
        self.assertEqual(waits_as(group, sparsecoll.Config(op_timeout=7)).op_timeout, 7)
        ddp = ddp_of()
        state = sct.DDPState(ddp, 0.05, "topka", group=group, warmup_steps=0, config=sparsecoll.Config(init_timeout=60))
        self.addCleanup(state.close)
        ddp.register_comm_hook(state, sct.hook)
        dist.barrier()
        backward(ddp, 0)
        dist.barrier()
        if dist.get_rank() == 0:
            inputs, targets = batch_of(1)
            loss = torch.nn.functional.mse_loss(ddp(inputs), targets)
            with self.assertRaisesRegex(RuntimeError, "Timeout"):
                loss.backward()
            self.assertIsInstance(state.error, sparsecoll.Timeout)
        else:
            ddp(batch_of(1)[0])
        dist.barrier()


class Starts(unittest.TestCase):
    def test_two_ranks(self):
        for status, output in in_ranks(lambda: run_tests("TwoRanks"), RANKS):
            self.assertEqual(status, 0, output)
            self.assertRegex(output, r"Ran 20 tests[^$]*\nOK")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(sys.argv[1:] or ["Starts"])], verbosity=2)
