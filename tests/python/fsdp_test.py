#!/usr/bin/env python3
"""The hook for FSDP2: two replicas of two shards each, in four processes over gloo."""
import dataclasses
import io
import signal
import sys
import tempfile
import time
import unittest.mock

try:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:
    print("skipped: there is no PyTorch with FSDP2 here (2.6 or later)")
    sys.exit(77)

import launch
import sparsecoll
import sparsecoll.torch as sct
from ddp_models import QUICK, batch_of, model_of


def sharded(mesh):
    model = model_of()
    for layer in (model[0], model[3]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in steps:
        optimizer.zero_grad()
        inputs, targets = batch_of(step)
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()


def vector_of(model):
    """All parameters, whole."""
    return torch.cat([parameter.full_tensor().detach().flatten() for parameter in model.parameters()])


class Branches(torch.nn.Module):
    """Two of one size, of which a step uses those that it names."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.a, self.b = torch.nn.Linear(21, 33), torch.nn.Linear(21, 33)

    def forward(self, used):
        inputs = batch_of(0)[0].repeat(1, 2)[:, :21]
        return sum(getattr(self, name)(inputs) for name in used).sum()


class FourProcesses(unittest.TestCase):
    """Runs in each of four processes, in the same order."""

    def setUp(self):
        self.mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        self.replicas = self.mesh["replicate"].get_group()

    def hooked(self, **options):
        model = sharded(self.mesh["shard"])
        state = sct.fsdp_hook(model, self.replicas, config=QUICK, **options)
        self.addCleanup(state.close)
        return model, state

    def replicas_of(self, model):
        mine = vector_of(model)
        vectors = [torch.empty_like(mine) for _ in range(4)]
        dist.all_gather(vectors, mine)
        return vectors

    def test_density_1_is_hsdp_up_to_rounding(self):
        plain = sharded(self.mesh)
        ours, _ = self.hooked(density=1)
        for model in (plain, ours):
            train(model, range(5))
        torch.testing.assert_close(vector_of(ours), vector_of(plain), rtol=1e-4, atol=1e-6)

    def test_accumulation_is_hsdps(self):
        def accumulate(model):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            for step in range(4):
                optimizer.zero_grad()
                for part in range(2):
                    model.set_requires_gradient_sync(part == 1)
                    inputs, targets = batch_of(2 * step + part)
                    torch.nn.functional.mse_loss(model(inputs), targets).backward()
                optimizer.step()

        plain = sharded(self.mesh)
        ours, state = self.hooked(density=1)
        for model in (plain, ours):
            accumulate(model)
        torch.testing.assert_close(vector_of(ours), vector_of(plain), rtol=1e-4, atol=1e-6)
        self.assertEqual({counters.ops_completed for counters in state.stats().values()}, {4})

    def test_replicas_stay_equal(self):
        for preset in ("topka", "micro"):
            model, state = self.hooked(density=0.02, preset=preset)
            before = vector_of(model)
            train(model, range(8))
            first, *others = self.replicas_of(model)
            for other in others:
                self.assertTrue(torch.equal(first, other))
            self.assertFalse(torch.equal(first, before))
            stats = state.stats()
            self.assertEqual(set(stats), {"", "0", "3"})
            for counters in stats.values():
                self.assertEqual(counters.ops_completed, 8)
                self.assertLess(counters.bytes_sent, counters.bytes_dense / 4)

    def test_resume_has_the_same_bits(self):
        model, state = self.hooked(density=0.02)
        train(model, range(5))
        saved = state.state_dict()
        weights = [parameter.to_local().detach().clone() for parameter in model.parameters()]
        self.assertTrue(all(value.abs().max() > 0 for value in saved["residuals"].values()))
        train(model, range(5, 9))
        whole = vector_of(model)
        other, resumed = self.hooked(density=0.02)
        with torch.no_grad():
            for parameter, value in zip(other.parameters(), weights):
                parameter.to_local().copy_(value)
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "every rank loads its own"):
            resumed.load_state_dict({**saved, "rank": 1 - saved["rank"]})
        others = [None] * 4
        dist.all_gather_object(others, saved)
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "the state is of shards.*every rank loads its own"):
            resumed.load_state_dict(others[dist.get_rank() ^ 1])
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "residuals of .'9'.*which the model has not"):
            resumed.load_state_dict({**saved, "residuals": {"9": torch.zeros(1)}})
        resumed.load_state_dict(saved)
        train(other, range(5, 9))
        self.assertTrue(torch.equal(vector_of(other), whole))

    def test_what_is_refused(self):
        with self.assertRaisesRegex(sparsecoll.Unsupported, "mesh of 2 dimensions .HSDP."):
            sct.fsdp_hook(sharded(self.mesh), self.replicas)
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "no module that fully_shard was called on"):
            sct.fsdp_hook(model_of(), self.replicas)
        with self.assertRaisesRegex(sparsecoll.Mismatch, "different density$"):
            sct.fsdp_hook(sharded(self.mesh["shard"]), self.replicas, density=0.1 * (1 + dist.get_rank()))
        model, state = self.hooked(density=0.02)
        with self.assertRaisesRegex(sparsecoll.InvalidUsage, "the model has a state already"):
            sct.fsdp_hook(model, self.replicas)
        state.close()
        with self.assertRaisesRegex(RuntimeError, "closed"):
            train(model, [0])

    def test_a_hook_of_the_users_stays(self):
        seen, model = [], sharded(self.mesh["shard"])
        model[3].set_all_reduce_hook(seen.append)
        with self.assertRaisesRegex(sparsecoll.InvalidUsage, "^3 has an all-reduce hook already"):
            sct.fsdp_hook(model, self.replicas, config=QUICK)
        train(model, [0])
        self.assertEqual(len(seen), 1)
        if dist.get_rank() == 0:
            model[3].set_all_reduce_hook(None)
        if dist.get_rank() % 2 == 0:  # in the first group of replicas rank 0 alone has none
            with self.assertRaisesRegex(sparsecoll.Mismatch, "different hook$"):
                sct.fsdp_hook(model, self.replicas, config=QUICK)
        model[3].set_all_reduce_hook(None)
        sct.fsdp_hook(model, self.replicas, config=QUICK).close()
        sct.fsdp_hook(model, self.replicas, config=QUICK).close()

    def test_gradients_in_half_precision(self):
        """They are sent as such; residuals are in float32, and load from another type of floating point."""
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16,
                                      output_dtype=torch.float32)
        model = model_of()
        fully_shard(model, mesh=self.mesh["shard"], mp_policy=policy)
        state = sct.fsdp_hook(model, self.replicas, density=0.02, config=QUICK)
        self.addCleanup(state.close)
        train(model, range(4))
        first, *others = self.replicas_of(model)
        self.assertTrue(all(torch.equal(first, other) for other in others))
        saved = state.state_dict()
        self.assertEqual(saved["residuals"][""].dtype, torch.float32)
        state.load_state_dict({**saved, "residuals": {"": saved["residuals"][""].double()}})
        self.assertTrue(torch.equal(state.state_dict()["residuals"][""], saved["residuals"][""]))
        train(model, [4])
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "residuals of the model are torch.int64.*were saved"):
            state.load_state_dict({**saved, "residuals": {"": saved["residuals"][""].long()}})

    def test_threads_and_descriptors_go_with_close(self):
        def use():
            model, state = self.hooked(density=0.1)
            train(model, [0])
            state.close()

        use()
        before = launch.threads_and_descriptors()
        for _ in range(3):
            use()
        launch.assert_no_more_than(before)

    def test_a_hook_that_pytorch_refuses_for_one_module_is_on_none(self):
        model = sharded(self.mesh["shard"])
        with unittest.mock.patch.object(model[3], "set_all_reduce_hook", side_effect=ValueError("refused")):
            with self.assertRaisesRegex(ValueError, "^refused$"):
                sct.fsdp_hook(model, self.replicas, config=QUICK)
        train(model, [0])
        first = model[0].weight.full_tensor().detach()
        parts = [torch.empty_like(first) for _ in range(4)]
        dist.all_gather(parts, first)
        self.assertFalse(torch.equal(parts[0], parts[2]), "replicas are averaged")
        sct.fsdp_hook(model, self.replicas, config=QUICK).close()

    def branches(self, *parts, density=0.1):
        """A model of which fully_shard is called on these parts, and its state."""
        model = Branches()
        for part in parts:
            fully_shard(part(model), mesh=self.mesh["shard"])
        state = sct.fsdp_hook(model, self.replicas, density=density)
        self.addCleanup(state.close)
        return model, state

    def test_parts_of_a_module_without_gradients_are_refused(self):
        """Their residuals would go to others."""
        model, state = self.branches(lambda model: model)
        model("ab").backward()
        self.assertEqual(state.stats()[""].ops_completed, 1)
        with self.assertRaisesRegex(RuntimeError, "gave gradients to 374 of 748 elements"):
            model("b").backward()
        self.assertIsInstance(state.error, sparsecoll.Unsupported)
        model, _ = self.branches(lambda model: model)
        model.a.requires_grad_(False)
        model("ab").backward()
        model.a.requires_grad_(True)
        model.b.requires_grad_(False)
        with self.assertRaisesRegex(RuntimeError, "other parameters are frozen"):
            model("ab").backward()

    def test_branches_that_are_sharded_alone_take_turns(self):
        model, state = self.branches(lambda model: model.a, lambda model: model.b, density=0.01)
        model("a").backward()
        kept = state.state_dict()["residuals"]["a"]
        (0 * model("b")).backward()
        self.assertEqual(model.b.weight.grad.to_local().abs().max(), 0)
        self.assertTrue(kept.abs().max() > 0 and torch.equal(state.state_dict()["residuals"]["a"], kept))

    def test_modules_that_are_sharded_together_have_one_reducer(self):
        model, state = self.branches(lambda model: [model.a, model.b], lambda model: model)
        model("ab").backward()
        self.assertEqual([counters.ops_completed for counters in state.stats().values()], [1])

    def test_a_state_lives_on_after_a_step_with_nan(self):
        model = sharded(self.mesh["shard"])
        state = sct.fsdp_hook(model, self.replicas, density=0.02,
                              config=dataclasses.replace(QUICK, non_finite="error"))
        self.addCleanup(state.close)
        train(model, range(2))
        with self.assertRaisesRegex(RuntimeError, "non-finite gradient"):
            (model(batch_of(0)[0]) * float("nan")).sum().backward()
        self.assertIsNone(state.error)
        sparsecoll.all_reduce(state.communicator, torch.ones(100), density=0.1)

    def test_a_distributed_checkpoint_has_what_each_rank_keeps(self):
        """Under a key for each rank: of one that ranks share it has what one of them keeps."""
        def trained(steps, saved=None):
            ddp = torch.nn.parallel.DistributedDataParallel(model_of())
            if saved is not None:
                ddp.module.load_state_dict(saved["model"])
            optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
            state = sct.attach(ddp, optimizer, 0.05, "topka", warmup_steps=1, config=QUICK)
            self.addCleanup(state.close)
            if saved is not None:
                state.load_state_dict(torch.load(io.BytesIO(saved[key]), weights_only=True))
            for step in steps:
                optimizer.zero_grad()
                inputs, targets = batch_of(step)
                torch.nn.functional.mse_loss(ddp(inputs), targets).backward()
                optimizer.step()
            return ddp, state

        key = f"sparsecoll.{dist.get_rank()}"
        with tempfile.TemporaryDirectory() as own:
            folder = [own]
            dist.broadcast_object_list(folder)
            kept = io.BytesIO()
            ddp, state = trained(range(5))
            torch.save(state.state_dict(), kept)
            dcp.save({"model": ddp.module.state_dict(), key: kept.getvalue()}, checkpoint_id=folder[0])
            saved = {"model": model_of().state_dict(), key: b""}
            dcp.load(saved, checkpoint_id=folder[0])
            dist.barrier()
        whole, resumed = trained(range(8))[0], trained(range(5, 8), saved)[0]
        for one, other in zip(whole.parameters(), resumed.parameters()):
            self.assertTrue(torch.equal(one, other))


def interrupted():
    """Rank 1 does not come to a step, and rank 0 is interrupted while it waits; both get Ctrl-C."""
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    model = sharded(mesh["shard"])
    state = sct.fsdp_hook(model, mesh["replicate"].get_group(), config=QUICK)
    train(model, range(2))
    print("trains", flush=True)
    if dist.get_rank() == 1:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass
    try:
        train(model, [2])
    except RuntimeError as error:
        print(f"{type(state.error).__name__} of rank {state.error.peer}: {error}", flush=True)
        raise SystemExit(4)


class Starts(unittest.TestCase):
    def test_ctrl_c_while_a_replica_does_not_come(self):
        processes = launch.start(__file__, ["interrupted"], 2)
        for process in processes:
            self.assertEqual(process.stdout.readline(), "trains\n")
        time.sleep(1)
        for process in processes:
            process.send_signal(signal.SIGINT)
        (first, output), (second, others) = launch.finish(processes, 50)
        self.assertIn(first, (1, -signal.SIGINT), output)
        self.assertIn("KeyboardInterrupt", output)
        self.assertEqual(second, 4, others)
        self.assertRegex(others, "PeerFailed of rank 0")

    def test_four_processes(self):
        def main():
            torch.set_num_threads(1)
            dist.init_process_group("gloo")
            result = unittest.main(argv=[sys.argv[0], "FourProcesses"], verbosity=2, exit=False).result
            assert result.wasSuccessful()

        for status, output in launch.fork(main, 4):
            self.assertEqual(status, 0, output)
            self.assertRegex(output, r"Ran 14 tests[^$]*\nOK")


if __name__ == "__main__":
    if sys.argv[1:] == ["interrupted"]:
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        interrupted()
    unittest.main(argv=[sys.argv[0], *(sys.argv[1:] or ["Starts"])], verbosity=2)
