#!/usr/bin/env python3
"""What auto chooses for the buckets of DistributedDataParallel on four ranks, what goes along with a choice, and
parameters that some steps do not use."""
import copy
import pickle
import sys
import unittest

import needs_gloo  # pylint: disable=unused-import  (it skips this)
import torch
import torch.distributed as dist

import sparsecoll
import sparsecoll.torch as sct
from ddp_models import (QUICK, Parts, assert_replicas_equal, backward, batch_of, ddp_of, dense_takes, hooked, in_ranks,
                        model_of, run_tests, sgd, train, vector_of)

RANKS = 4


class FourRanks(unittest.TestCase):
    """Runs in each of four processes, in the same order."""

    def state(self, ddp, **options):
        state = hooked(ddp, **options)
        self.addCleanup(state.close)
        return state

    def attached(self, **options):
        ddp = ddp_of()
        optimizer = sgd(ddp, momentum=0.9)
        state = sct.attach(ddp, optimizer, density=0.05, config=QUICK, **options)
        self.addCleanup(state.close)
        return ddp, optimizer, state

    def choices_of_all(self, state):
        """auto's choices, which all ranks have alike."""
        mine = state.state_dict()["choices"]
        everyones = [None] * dist.get_world_size()
        dist.all_gather_object(everyones, mine)
        self.assertTrue(all(each == mine for each in everyones), everyones)
        return mine

    def test_auto_leaves_a_bucket_to_the_group_where_that_is_faster(self):
        """The slowest rank's time counts, so ranks with uneven times decide alike."""
        slow = 10 ** 15
        for times, dense in (([1] * RANKS, True), ([1] * (RANKS - 1) + [slow], False)):
            with self.subTest(dense=dense), dense_takes(times[dist.get_rank()]):
                ddp, optimizer, state = self.attached()
                train(ddp, optimizer, range(4))
                self.assertEqual({bucket.plan for bucket in state.stats()}, {"dense"})
                self.assertIn("dense while auto times it, 3 steps", {bucket.reason for bucket in state.stats()})
                train(ddp, optimizer, range(4, 44))
                choices = self.choices_of_all(state)
                self.assertEqual(set(choices), {"0.weight", "3.weight", "5.weight"})
                for choice in choices.values():
                    self.assertIn(choice, ("dense",) if dense else ("topka", "sparcml-split"))
                residuals = state.state_dict()["residuals"]
                for bucket in state.stats():
                    if bucket.reason == "kept dense":
                        continue
                    names = [name for name in bucket.parameters if name in choices]
                    self.assertEqual({choices[name] for name in names}, {bucket.plan})
                    self.assertRegex(bucket.reason, f"{bucket.plan}.*by the caller")
                    self.assertEqual(bucket.counters is None, dense)
                    self.assertEqual([name in residuals for name in names], [not dense] * len(names))
                assert_replicas_equal(ddp)

    def test_auto_loses_nothing_on_its_way_to_dense(self):
        """What was averaged, times the ranks, is what was given, once dense sums have taken the residual along."""
        with dense_takes(1):
            ddp = ddp_of()
            state = self.state(ddp, density=0.02, preset="auto")
            delivered = [torch.zeros_like(value) for value in ddp.parameters()]
            alone, given = model_of(), [torch.zeros_like(value) for value in ddp.parameters()]
            for step in range(14):
                ddp.zero_grad()
                backward(ddp, step)
                for total, value in zip(delivered, ddp.parameters()):
                    total += RANKS * value.grad
                for rank in range(RANKS):
                    alone.zero_grad()
                    inputs, targets = batch_of(step, rank)
                    torch.nn.functional.mse_loss(alone(inputs), targets).backward()
                    for total, value in zip(given, alone.parameters()):
                        total += value.grad
            self.assertEqual(set(self.choices_of_all(state).values()), {"dense"})
            for total, wanted in zip(delivered, given):
                torch.testing.assert_close(total, wanted, rtol=1e-4, atol=1e-5)

    def test_auto_times_the_group_before_a_warm_up_of_the_density(self):
        """Later there would be a residual, which would go out in one of the timed steps."""
        with dense_takes(10 ** 15):
            ddp = ddp_of()
            state = self.state(ddp, density=0.02, preset="auto", density_schedule=[0.2], schedule_steps=8)
            plans, before = [], {}
            for step in range(11):
                train(ddp, sgd(ddp), [step])
                plans.append({bucket.plan for bucket in state.stats() if bucket.reason != "kept dense"})
                residuals = state.state_dict()["residuals"]
                if step == 8:
                    self.assertTrue(before)
                    for name, value in before.items():
                        kept = (residuals[name] != 0) & (value != 0)
                        self.assertGreater(int(kept.sum()), int((value != 0).sum()) // 2, name)
                before = residuals
            self.assertEqual(plans[:8], 5 * [{"dense"}] + 3 * [{"topka"}])  # DDP cuts its buckets anew after the first
            self.assertNotIn({"dense"}, plans[8:9])

    def test_a_state_that_does_not_fit_one_rank_changes_nothing_on_any(self):
        ddp, optimizer, state = self.attached()
        train(ddp, optimizer, range(3))
        saved = state.state_dict()
        if dist.get_rank() == 2:
            saved["residuals"]["nobody"] = torch.zeros(1)
        with self.assertRaises(sparsecoll.InvalidArgument if dist.get_rank() == 2 else sparsecoll.Mismatch):
            state.load_state_dict(saved)
        train(ddp, optimizer, range(3, 5))
        assert_replicas_equal(ddp)

    def test_auto_with_momentum_and_clipping_is_sgds_where_it_is_dense(self):
        """On the steps after the choice, in which plain SGD goes on with the velocity that all ranks have together."""
        def adjust(params):
            params.clipNorm = 0.05

        with dense_takes(1):
            ddp, optimizer, state = self.attached(adjust=adjust)
            train(ddp, optimizer, range(14))
            self.assertEqual(set(self.choices_of_all(state).values()), {"dense"})
            velocities = state.state_dict()["velocities"]
            for value in velocities.values():
                dist.all_reduce(value)
            alone = model_of()
            alone.load_state_dict(ddp.module.state_dict())
            plain = torch.optim.SGD(alone.parameters(), lr=0.05, momentum=0.9)
            for name, parameter in alone.named_parameters():
                plain.state[parameter]["momentum_buffer"] = velocities[name] / RANKS
            for step in range(14, 18):
                sums = [torch.zeros_like(parameter) for parameter in alone.parameters()]
                for rank in range(RANKS):
                    inputs, targets = batch_of(step, rank)
                    alone.zero_grad()
                    torch.nn.functional.mse_loss(alone(inputs), targets).backward()
                    for bucket in state.stats():
                        parts = [dict(alone.named_parameters())[name] for name in bucket.parameters]
                        norm = torch.cat([part.grad.flatten() for part in parts]).norm()
                        for part in parts:
                            part.grad *= min(1, 0.05 / RANKS ** 0.5 / norm)
                    for total, parameter in zip(sums, alone.parameters()):
                        total += parameter.grad / RANKS
                for total, parameter in zip(sums, alone.parameters()):
                    parameter.grad = total
                plain.step()
                train(ddp, optimizer, [step])
            torch.testing.assert_close(vector_of(ddp), torch.nn.utils.parameters_to_vector(alone.parameters()),
                                       rtol=1e-4, atol=1e-6)

    def test_a_state_brings_autos_choices_along(self):
        """No trials follow, and a sparse choice has the bits of a training that was not interrupted."""
        for nanoseconds in (1, 10 ** 15):
            with dense_takes(nanoseconds):
                ddp, optimizer, state = self.attached()
                train(ddp, optimizer, range(36))
                saved = pickle.loads(pickle.dumps([each.state_dict() for each in (ddp.module, optimizer, state)]))
                chosen = self.choices_of_all(state)
                train(ddp, optimizer, range(36, 40))
                whole = vector_of(ddp)
            with dense_takes(10 ** 15 + 1 - nanoseconds):  # trials would find the contrary
                ddp, optimizer, state = self.attached()
                for each, values in zip((ddp.module, optimizer, state), saved):
                    each.load_state_dict(values)
                train(ddp, optimizer, range(36, 40))
                self.assertEqual(self.choices_of_all(state), chosen)
                for bucket in state.stats():
                    plans = {chosen[name] for name in bucket.parameters if name in chosen}
                    self.assertIn(bucket.plan, plans or {"dense"})
                if nanoseconds == 1:
                    torch.testing.assert_close(vector_of(ddp), whole, rtol=1e-4, atol=1e-6)
                else:
                    self.assertTrue(torch.equal(vector_of(ddp), whole))
                wrong = {**saved[2], "choices": {"0.weight": "topka" if dist.get_rank() else "dense"}}
                with self.assertRaisesRegex(sparsecoll.Mismatch, "different choices"):
                    state.load_state_dict(wrong)
                with self.assertRaisesRegex(sparsecoll.InvalidArgument, "'topk9' chosen for 0.weight"):
                    state.load_state_dict({**saved[2], "choices": {"0.weight": "topk9"}})

    def test_an_overflow_leaves_autos_choice(self):
        with dense_takes(10 ** 15):
            ddp, optimizer, state = self.attached()
            state.set_loss_scale(8.0)
            train(ddp, optimizer, range(36))
            chosen = self.choices_of_all(state)
            optimizer.zero_grad()
            backward(ddp, 36, float("inf") if dist.get_rank() == 1 else 8)
            self.assertEqual(self.choices_of_all(state), chosen)
            train(ddp, optimizer, [37])
            self.assertEqual(self.choices_of_all(state), chosen)
            self.assertEqual({bucket.plan for bucket in state.stats() if bucket.reason != "kept dense"},
                             set(chosen.values()))

    def test_nothing_is_lost_of_parameters_that_no_rank_uses(self):
        """DDP drops their averages. Residuals wait until a step uses them, in sparse steps and on auto's way to
        dense."""
        for preset, used_in in (("topka", lambda step: [step % 2]), ("auto", lambda step: [step // 4 % 2])):
            with self.subTest(preset), dense_takes(1):
                ddp = ddp_of(Parts(), find_unused_parameters=True)
                alone = copy.deepcopy(ddp.module)
                state = self.state(ddp, density=0.02, preset=preset)
                delivered, given = [[torch.zeros_like(each) for each in alone.parameters()] for _ in range(2)]
                for step in range(21):
                    inputs, targets = batch_of(step)
                    for model in (ddp, alone):
                        model.zero_grad(set_to_none=True)
                        torch.nn.functional.mse_loss(model(inputs, used_in(step)), targets).backward()
                    for total, each in zip(delivered, ddp.parameters()):
                        if each.grad is not None:
                            total += RANKS * each.grad
                    for total, each in zip(given, alone.parameters()):
                        if each.grad is not None:
                            total += each.grad
                residuals = state.state_dict()["residuals"]
                self.assertEqual("dense" in self.choices_of_all(state).values(), preset == "auto")
                for (name, each), sent, wanted in zip(ddp.module.named_parameters(), delivered, given):
                    kept = residuals.get(name, torch.zeros_like(each))
                    dist.all_reduce(kept)
                    dist.all_reduce(wanted)
                    torch.testing.assert_close(sent + kept, wanted, rtol=1e-4, atol=1e-5, msg=name)

    def test_momentum_waits_for_parameters_that_no_rank_uses(self):
        """As SGD's, which leaves out parameters without a gradient."""
        plain, ours = [ddp_of(Parts(), find_unused_parameters=True) for _ in range(2)]
        optimizers = [sgd(plain, momentum=0.9), sgd(ours, momentum=0.9)]
        state = sct.attach(ours, optimizers[1], keep_dense=lambda name, parameter: True, config=QUICK)
        self.addCleanup(state.close)
        for ddp, optimizer in zip((plain, ours), optimizers):
            for step in range(8):
                optimizer.zero_grad(set_to_none=True)
                inputs, targets = batch_of(step)
                torch.nn.functional.mse_loss(ddp(inputs, [step // 2 % 2]), targets).backward()
                optimizer.step()
        torch.testing.assert_close(vector_of(ours), vector_of(plain), rtol=1e-4, atol=1e-6)


class Starts(unittest.TestCase):
    def test_four_ranks(self):
        for status, output in in_ranks(lambda: run_tests("FourRanks"), RANKS):
            self.assertEqual(status, 0, output)
            self.assertRegex(output, r"Ran 9 tests[^$]*\nOK")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(sys.argv[1:] or ["Starts"])], verbosity=2)
