#!/usr/bin/env python3
"""The hook for DistributedDataParallel on four ranks: groups, several models, models with unused parts, loss scales
that overflow, states of other numbers of ranks, and ranks that are killed or interrupted. ddp_auto_test.py has auto's
choices.

SPARSECOLL_TEST_CLOSES: how many states are made and closed (100). SPARSECOLL_TEST_KILLS: how many ranks are killed at
any moment (3); SPARSECOLL_TEST_SEED draws the same moments again.
"""
import copy
import os
import pathlib
import pickle
import random
import re
import signal
import sys
import tempfile
import threading
import time
import unittest

import needs_gloo  # pylint: disable=unused-import  (it skips this)
import torch
import torch.distributed as dist

import launch
import sparsecoll
import sparsecoll.torch as sct
from sparsecoll.torch import _gather
from ddp_models import (QUICK, Parts, assert_replicas_equal, backward, batch_of, ddp_of, dense_takes, hooked, in_ranks,
                        model_of, replicas_of, run_tests, sgd, train, vector_of)

RANKS = 4
EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples/python"


class FourRanks(unittest.TestCase):
    """Runs in each of four processes, in the same order."""

    def state(self, ddp, **options):
        state = hooked(ddp, **options)
        self.addCleanup(state.close)
        return state

    def test_presets(self):
        for preset in ("topka", "micro", "spardl"):
            with self.subTest(preset):
                ddp = ddp_of()
                state = self.state(ddp, density=0.05, preset=preset)
                train(ddp, sgd(ddp), range(6))
                assert_replicas_equal(ddp)
                self.assertTrue([bucket for bucket in state.stats() if bucket.plan == preset])

    def test_groups_of_some_ranks(self):
        pairs = [(dist.new_group(ranks), dist.new_group(ranks)) for ranks in ([0, 2], [1, 3])]
        theirs, ours = pairs[dist.get_rank() % 2]
        ddp = ddp_of(process_group=theirs)
        with self.assertRaisesRegex(sparsecoll.Unsupported, "give `group`"):
            sct.DDPState(ddp)
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "group has 4 ranks, and that of ddp 2"):
            sct.DDPState(ddp, group=dist.group.WORLD)
        state = self.state(ddp, density=0.05, group=ours)
        self.assertEqual((state.communicator.rank, state.communicator.size), (dist.get_rank() // 2, 2))
        train(ddp, sgd(ddp), range(6))
        assert_replicas_equal(ddp, theirs)
        mine, other = [replicas_of(ddp)[rank] for rank in (dist.get_rank(), (dist.get_rank() + 1) % RANKS)]
        self.assertFalse(torch.equal(mine, other), "both groups have the same gradients")

    def test_several_models_and_all_reduces_of_the_trainers_own(self):
        """At density 1 as plain DDP, up to rounding."""
        def models():
            torch.manual_seed(5)
            return [ddp_of(torch.nn.Sequential(torch.nn.Linear(20, 200), torch.nn.ReLU())),
                    ddp_of(torch.nn.Linear(200, 100)), ddp_of(torch.nn.Linear(100, 30))]

        plain, ours = models(), models()
        for ddp in ours:
            self.state(ddp, density=1)
        for step in range(5):
            own = torch.full((50,), float(dist.get_rank() + step))
            for ddps in (plain, ours):
                before = dist.all_reduce(own, async_op=True) if ddps is ours else None
                values, targets = batch_of(step)
                for ddp in ddps:
                    ddp.zero_grad()
                    values = ddp(values)
                torch.nn.functional.mse_loss(values, targets).backward()
                after = dist.all_reduce(torch.zeros(7), async_op=True)
                for work in (before, after):
                    if work:
                        work.wait()
                for ddp in ddps:
                    sgd(ddp).step()
            self.assertTrue(torch.equal(own, torch.full((50,), 4.0 * step + 6)))
            for one, other in zip(plain, ours):
                torch.testing.assert_close(vector_of(other), vector_of(one), rtol=1e-4, atol=1e-6)

    def test_unused_parameters_and_a_static_graph(self):
        for options, used_in in (({"find_unused_parameters": True}, lambda step: [(dist.get_rank() + step) % 2]),
                                 ({"find_unused_parameters": True}, lambda step: [step % 2]),
                                 ({"static_graph": True}, lambda step: [0, 1])):
            results = []
            for hook in (False, True):
                ddp = ddp_of(Parts(), **options)
                if hook:
                    self.state(ddp, density=1)
                optimizer = sgd(ddp)
                for step in range(6):
                    optimizer.zero_grad()
                    inputs, targets = batch_of(step)
                    torch.nn.functional.mse_loss(ddp(inputs, used_in(step)), targets).backward()
                    optimizer.step()
                assert_replicas_equal(ddp)
                results.append(vector_of(ddp))
            torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)

    def test_a_state_is_loaded_where_buckets_were_cut_anew(self):
        """It has the same bits as a training that was never interrupted, whatever was trained before."""
        ddp = ddp_of()
        optimizer, state = sgd(ddp), self.state(ddp, density=0.02)
        train(ddp, optimizer, range(4))
        saved = pickle.loads(pickle.dumps((ddp.module.state_dict(), state.state_dict())))
        train(ddp, optimizer, range(4, 8))
        whole = vector_of(ddp)
        train(ddp, optimizer, range(90, 93))
        ddp.module.load_state_dict(saved[0])
        state.load_state_dict(saved[1])
        train(ddp, optimizer, range(4, 8))
        self.assertTrue(torch.equal(vector_of(ddp), whole))

    def test_a_step_that_overflows_leaves_no_trace(self):
        """Residuals, velocities and all that follows have the bits of a training without the step."""
        def trained(momentum, overflows):
            ddp = ddp_of()
            optimizer = sgd(ddp, momentum=momentum)
            state = sct.attach(ddp, optimizer, 0.02, "topka", config=QUICK)
            self.addCleanup(state.close)
            for step in range(9):
                state.set_loss_scale(1024.0)
                if step in overflows:
                    before = state.state_dict()
                    optimizer.zero_grad()
                    backward(ddp, 50, float("inf") if dist.get_rank() == RANKS - 1 else 1024)
                    self.assertFalse(torch.isfinite(next(ddp.parameters()).grad).all())
                    after = state.state_dict()
                    state.give_back(1 / 1024)
                    for kind in ("residuals", "velocities"):
                        self.assertEqual(set(before[kind]), set(after[kind]))
                        for name, value in before[kind].items():
                            self.assertTrue(torch.equal(value, after[kind][name]), f"{kind} of {name}")
                optimizer.zero_grad()
                backward(ddp, step, 1024)
                for value in ddp.parameters():
                    value.grad /= 1024
                optimizer.step()
            self.assertTrue(state.state_dict()["residuals"])
            return vector_of(ddp)

        for momentum in (0, 0.9):
            self.assertTrue(torch.equal(trained(momentum, ()), trained(momentum, (5, 6))))

    @unittest.skipUnless(hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"), "no GradScaler for CPUs here")
    def test_grad_scaler(self):
        ddp = ddp_of()
        optimizer, scaler = sgd(ddp), torch.amp.GradScaler("cpu", init_scale=1024.0)
        state = self.state(ddp, density=0.02)
        for step in range(8):
            state.set_loss_scale(scaler.get_scale())
            before, model = state.state_dict()["residuals"], vector_of(ddp)
            optimizer.zero_grad()
            inputs, targets = batch_of(step)
            overflows = step == 5
            loss = torch.nn.functional.mse_loss(ddp(inputs), targets)
            scaler.scale(loss * (float("inf") if overflows and dist.get_rank() == 1 else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
            after = state.state_dict()["residuals"]
            if before:  # no longer dense
                same = [torch.equal(after[name], value) for name, value in before.items()]
                self.assertEqual((all(same), torch.equal(model, vector_of(ddp))), (overflows, overflows))
        self.assertTrue(before)
        self.assertEqual(scaler.get_scale(), 512)
        assert_replicas_equal(ddp)

    def conserved(self, ddps, optimizers, states):
        """What optimisers apply, and what ranks keep, is what was given in steps that a loss scaler did not skip. Rank
        1's gradient of the first parameter overflows in step 7. The first of several models has no part in step 8."""
        step, first = 0, next(ddps[0].parameters())
        first.register_hook(lambda gradient: gradient * (float("inf") if (step, dist.get_rank()) == (7, 1) else 1))
        pairs = [(ddp, copy.deepcopy(ddp.module)) for ddp in ddps]
        alone = {mine: own for ddp, module in pairs for mine, own in zip(ddp.parameters(), module.parameters())}
        delivered, given = [{each: torch.zeros_like(each) for each in alone} for _ in range(2)]
        skipped = []
        for step in range(10):
            for state in states:
                state.set_loss_scale(1024.0)
            for ddp, module in pairs:
                ddp.zero_grad(set_to_none=True)
                module.zero_grad(set_to_none=True)
                if step != 8 or ddp is ddps[-1]:
                    inputs, targets = batch_of(step)
                    torch.nn.functional.mse_loss(module(inputs), targets).backward()
                    backward(ddp, step, 1024)
            for optimizer in optimizers:
                used = [each for group in optimizer.param_groups for each in group["params"] if each.grad is not None]
                if all(each.grad.isfinite().all() for each in used):
                    for each in used:
                        delivered[each] += RANKS * each.grad / 1024
                        given[each] += alone[each].grad
                else:
                    skipped.append((step, optimizers.index(optimizer)))
        self.assertEqual(skipped, [(7, 0)])
        for ddp, state in zip(ddps, states):
            residuals = state.state_dict()["residuals"]
            self.assertTrue(residuals)
            for name, each in ddp.module.named_parameters():
                kept = residuals.get(name, torch.zeros_like(each))
                dist.all_reduce(kept)
                dist.all_reduce(given[each])
                torch.testing.assert_close(delivered[each] + kept, given[each], rtol=1e-4, atol=1e-5, msg=name)

    def test_an_overflow_is_undone_once_where_its_optimiser_skips(self):
        def small():
            return ddp_of(torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 30)))

        ddp = ddp_of()
        parts = list(ddp.parameters())
        optimizers = [torch.optim.SGD(part, lr=0.1) for part in (parts[:3], parts[3:])]
        state = sct.attach(ddp, optimizers, 0.02, "topka", config=QUICK)
        self.addCleanup(state.close)
        self.conserved([ddp], optimizers, [state])

        ddps = [ddp_of(), small()]
        optimizers = [torch.optim.SGD([each for ddp in ddps for each in ddp.parameters()], lr=0.1)]
        states = sct.attach(ddps, optimizers[0], 0.02, "topka", config=QUICK)
        for state in states:
            self.addCleanup(state.close)
        self.conserved(ddps, optimizers, states)

    def test_one_optimiser_with_momentum_of_several_models(self):
        """Kept dense they learn as with plain DDP; its weight decay is divided once."""
        def models():
            return [ddp_of(model_of(1)), ddp_of(model_of(2))]

        def optimizer_of(ddps):
            return torch.optim.SGD([each for ddp in ddps for each in ddp.parameters()], lr=0.05, momentum=0.9,
                                   weight_decay=1e-3)

        plain, ours = models(), models()
        optimizers = [optimizer_of(plain), optimizer_of(ours)]
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "attach all its models together"):
            sct.attach(ours[0], optimizers[1], config=QUICK)
        with self.assertRaisesRegex(sparsecoll.InvalidArgument, "2 models want a list of as many groups"):
            sct.attach(ours, optimizers[1], group=dist.group.WORLD)
        for state in sct.attach(ours, optimizers[1], keep_dense=lambda name, parameter: True, config=QUICK):
            self.addCleanup(state.close)
        self.assertAlmostEqual(optimizers[1].param_groups[0]["weight_decay"], 1e-2)
        for ddps, optimizer in zip((plain, ours), optimizers):
            for step in range(5):
                optimizer.zero_grad()
                for ddp in ddps:
                    backward(ddp, step)
                optimizer.step()
        # Weight decay passes through the optimiser's momentum, and through none that is in front of the exchange.
        for one, other in zip(plain, ours):
            torch.testing.assert_close(vector_of(other), vector_of(one), rtol=1e-2, atol=1e-3)

    def test_ranks_that_name_different_groups(self):
        groups = [dist.new_group(range(RANKS)) for _ in range(2)]
        halves = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
        odd = dist.get_rank() == 1
        ddp = ddp_of()
        optimizer = sgd(ddp, momentum=0.9)
        for mine in (groups[odd], groups[0] if odd else None, halves[0], halves[dist.get_rank() // 2]):
            with self.assertRaisesRegex(sparsecoll.Mismatch, "^ranks named different process.*rank 3: ") as caught:
                sct.attach(ddp, optimizer, group=mine, config=QUICK)
            self.assertEqual(caught.exception.field, "group")
        self.assertEqual(optimizer.param_groups[0]["momentum"], 0.9)
        state = sct.attach(ddp, optimizer, group=groups[0], config=QUICK)
        self.addCleanup(state.close)
        train(ddp, optimizer, range(4))
        assert_replicas_equal(ddp)

    def test_sparse_gradients_and_fsdp_are_refused(self):
        with self.assertRaisesRegex(sparsecoll.Unsupported, "^words has sparse gradients"):
            sct.DDPState(ddp_of(torch.nn.ModuleDict({"words": torch.nn.Embedding(50, 8, sparse=True)})))

        class FSDPModule:
            pass

        class Sharded(FSDPModule, torch.nn.Linear):
            pass

        with self.assertRaisesRegex(sparsecoll.Unsupported, "^Sharded: FSDP .*HSDP"):
            sct.DDPState(Sharded(2, 2))
        if torch.__version__.startswith("1."):
            with self.assertRaisesRegex(sparsecoll.Unsupported, "has no FSDP2: 2.6 or later"):
                sct.fsdp_hook(model_of(), None)


def saved_by_four(folder):
    """Trains and saves: each rank its state, and rank 0 the model."""
    ddp = ddp_of()
    optimizer = sgd(ddp, momentum=0.5)
    state = sct.attach(ddp, optimizer, 0.02, config=QUICK)
    with dense_takes(10 ** 15):
        train(ddp, optimizer, range(36))
    torch.save(state.state_dict(), folder / f"state{dist.get_rank()}")
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), folder / "model")
    state.close()


def loaded_by_others(folder):
    """What all ranks together have not sent, as a share of an average, is what four ranks had, in any layout. Auto has
    chosen for four ranks, and chooses anew."""
    saved = [torch.load(folder / f"state{rank}") for rank in range(4)]
    ddp = ddp_of()
    ddp.module.load_state_dict(torch.load(folder / "model"))
    optimizer = sgd(ddp, momentum=0.5)
    state = sct.attach(ddp, optimizer, 0.02, config=QUICK)
    for wrong in (saved[0], saved[:3], [*saved[:3], saved[0]], [*saved[:3], {**saved[3], "step": 1}]):
        try:
            state.load_state_dict(wrong)
            raise AssertionError("a state that does not fit was taken")
        except sparsecoll.InvalidArgument as error:
            print(error)
    state.load_state_dict(saved)
    here = state.state_dict()
    assert saved[0]["choices"] and not here["choices"], (saved[0]["choices"], here["choices"])
    for kind in ("residuals", "velocities"):
        for name, value in saved[0][kind].items():
            mass = here[kind].get(name, torch.zeros_like(value)).double()
            dist.all_reduce(mass)
            before = sum(each[kind][name].double() for each in saved)
            assert before.abs().max() > 0
            torch.testing.assert_close(mass / dist.get_world_size(), before / 4, rtol=1e-5, atol=1e-7)
    train(ddp, optimizer, range(36, 43))
    assert_replicas_equal(ddp)
    assert state.step == 43 and "dense" not in {bucket.plan for bucket in state.stats() if bucket.elements > 5000}
    state.close()


def closed_many_times():
    torch.manual_seed(1)
    model = torch.nn.Linear(64, 64)

    def use():
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        with hooked(ddp, warmup_steps=0):
            ddp(torch.ones(2, 64)).sum().backward()

    use()
    before = launch.threads_and_descriptors()
    for _ in range(int(os.environ.get("SPARSECOLL_TEST_CLOSES", "100"))):
        use()
    launch.assert_no_more_than(before)


def train_until_failure(ddp, state, optimizer):
    try:
        train(ddp, optimizer, range(4, 10 ** 6))
    except RuntimeError as error:
        print(f"{type(state.error).__name__} of rank {getattr(state.error, 'peer', '?')}: {error}", flush=True)


def killed(folder, warmup_steps, group=False):
    """Rank 2 dies while the others wait for it, in steps that are still dense or sparse already. Their states end with
    all that they had. group: dense steps by a process group of the caller's, which no survivor leaves before all have
    noticed."""
    _gather._MOMENT = 60  # the machine may be busy
    ddp = ddp_of()
    with hooked(ddp, warmup_steps=0):  # what PyTorch begins with a first one stays
        backward(ddp, 0)
    before = launch.threads_and_descriptors()
    ddp = ddp_of()
    state = hooked(ddp, density=0.05, warmup_steps=warmup_steps,
                   group=dist.new_group() if group else None)
    optimizer = sgd(ddp)
    train(ddp, optimizer, range(4))
    assert ("topka" in {bucket.plan for bucket in state.stats()}) == (warmup_steps < 4)
    (folder / str(dist.get_rank())).touch()  # it is through: what rank 2 has sent may die with rank 2
    if dist.get_rank() == 2:
        while len(list(folder.iterdir())) < RANKS:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    train_until_failure(ddp, state, optimizer)
    state.close()
    if not group:
        launch.assert_no_more_than(before)
    (folder / f"through {dist.get_rank()}").touch()
    while group and len(list(folder.glob("through *"))) < RANKS - 1:
        time.sleep(0.01)


def dense_and_sparse():
    """(ddp, state, optimizer) of a model whose buckets are sent dense but for the last one."""
    _gather._MOMENT = 60
    ddp = ddp_of()
    state = hooked(ddp, density=0.05, keep_dense=lambda name, parameter: name[0] in "35")
    optimizer = sgd(ddp)
    train(ddp, optimizer, range(4))
    plans = [bucket.plan for bucket in state.stats()]
    assert plans[-1] == "topka" and set(plans[:-1]) == {"dense"}, plans
    return ddp, state, optimizer


def killed_at_any_moment(victim, after):
    ddp, state, optimizer = dense_and_sparse()
    if dist.get_rank() == victim:
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
    train_until_failure(ddp, state, optimizer)


def killed_behind_a_dense_bucket(folder):
    """On rank 1 the process group reports an error of a bucket that rank 0 is already through: it waits in the next
    one, which is sparse, when rank 2 dies."""
    ddp, state, optimizer = dense_and_sparse()
    average, told = dist.all_reduce, folder / "told"

    def failing(values, *arguments, **options):
        work = average(values, *arguments, **options)
        if values.numel() < ddp.module[3].weight.numel():
            return work
        if work is not None:
            work.wait()
        if dist.get_rank() == 1:
            told.touch()
            raise RuntimeError("a connection was closed")
        while not told.exists():
            time.sleep(0.01)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    if dist.get_rank():
        dist.all_reduce = failing
    train_until_failure(ddp, state, optimizer)


def interrupted():
    """Trains until Ctrl-C. Rank 1 of a second run does not come, and rank 0 is interrupted while it waits."""
    ddp = ddp_of()
    state = hooked(ddp, density=0.05)
    optimizer = sgd(ddp)
    train(ddp, optimizer, range(4))
    print("trains", flush=True)
    if sys.argv[2:] == ["late"] and dist.get_rank() == 1:
        time.sleep(1)
        os.kill(os.getppid(), signal.SIGUSR1)
        try:
            time.sleep(10 ** 6)
            raise AssertionError("nobody interrupted rank 1")
        except KeyboardInterrupt:
            pass
        try:
            train(ddp, optimizer, range(4, 100))  # rank 0 may have sent all of its step before it was interrupted
        except RuntimeError as error:
            print(f"{type(state.error).__name__} of rank {state.error.peer}: {error}", flush=True)
        raise SystemExit(4)
    train(ddp, optimizer, range(4, 100000))


def interrupted_outside(where):
    """Ctrl-C on rank 0 in code of its own, between steps or within a backward pass; rank 1 waits for it."""
    ddp = ddp_of()
    with hooked(ddp, warmup_steps=0):  # what PyTorch begins with a first one stays
        backward(ddp, 0)
    before = launch.threads_and_descriptors()
    ddp = ddp_of()
    optimizer = sgd(ddp)

    def wait(gradient=None):
        print("waits", flush=True)
        time.sleep(10 ** 6)
        return gradient

    try:
        with hooked(ddp, density=0.05) as state:
            train(ddp, optimizer, range(4))
            if dist.get_rank() == 0 and where == "between":
                wait()
            elif dist.get_rank() == 0:
                next(ddp.parameters()).register_hook(wait)
            train(ddp, optimizer, [4])
    except KeyboardInterrupt:
        launch.assert_no_more_than(before)
        print("KeyboardInterrupt, ended cleanly", flush=True)
        os._exit(1)
    except RuntimeError as error:
        print(f"{type(state.error).__name__} of rank {state.error.peer}: {error}", flush=True)
        os._exit(4)


def interrupted_unclosed():
    """Ctrl-C on rank 0 within a backward pass ends the process, whose state nobody closes."""
    ddp = ddp_of()
    state = hooked(ddp, density=0.05)
    optimizer = sgd(ddp)
    train(ddp, optimizer, range(4))

    def wait(gradient):
        print("waits", flush=True)
        time.sleep(10 ** 6)
        return gradient

    if dist.get_rank() == 0:
        next(ddp.parameters()).register_hook(wait)
    try:
        train(ddp, optimizer, [4])
    except RuntimeError as error:
        print(f"{type(state.error).__name__} of rank {state.error.peer}: {error}", flush=True)
        os._exit(4)


class Starts(unittest.TestCase):
    def succeed(self, function, ranks, meet=True):
        results = in_ranks(function, ranks, meet)
        for status, output in results:
            self.assertEqual(status, 0, output)
        return [output for _, output in results]

    def test_four_ranks(self):
        for output in self.succeed(lambda: run_tests("FourRanks"), RANKS):
            self.assertRegex(output, r"Ran 11 tests[^$]*\nOK")

    def test_three_lines_make_a_plain_program_sparse(self):
        plain = (EXAMPLES / "ddp_plain.py").read_text().splitlines()
        changes = (EXAMPLES / "ddp_three_lines.diff").read_text().split("@@\n")[1].splitlines()
        at = plain.index(changes[0][1:])
        sparse = plain[:at]
        for line in changes:
            if line[0] == " ":
                self.assertEqual(plain[at], line[1:])
                at += 1
            sparse.append(line[1:])
        sparse += plain[at:]
        self.assertEqual([line[0] for line in changes if line[0] != " "], ["+"] * 3)
        program = compile("\n".join(sparse), "ddp_sparse.py", "exec")

        def run():
            values = {"__name__": "__main__"}
            exec(program, values)
            assert_replicas_equal(values["ddp"])
            assert any("by the caller" in bucket.reason for bucket in values["state"].stats()), values["state"].stats()
            values["state"].close()

        for rank, output in enumerate(self.succeed(run, 2, meet=False)):
            losses = [float(loss) for loss in re.findall(rf"rank {rank}, step \d+: loss (\S+)", output)]
            self.assertLess(losses[1], losses[0], output)

    def test_another_number_of_ranks_takes_over_everything(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.succeed(lambda: saved_by_four(folder), 4)
            for ranks in (2, 3):
                for output in self.succeed(lambda: loaded_by_others(folder), ranks):
                    self.assertIn("on another number of ranks the list of all", output)
                    self.assertIn("states of ranks [0, 1, 2] of [4]", output)
                    self.assertIn("states of ranks [0, 0, 1, 2] of [4]", output)
                    self.assertIn("states of different steps: [1, 36]", output)

    def test_a_program_whose_state_nobody_closes_ends_well(self):
        for ends in ("destroy", "barrier", "nothing"):
            script = str(pathlib.Path(__file__).with_name("dropped.py"))
            for status, output in launch.finish(launch.start(script, [ends], 2)):
                self.assertEqual((status, output), (0, "the end\n"), ends)

    def test_threads_and_descriptors_go_with_close(self):
        self.succeed(closed_many_times, 2)

    def test_all_ranks_name_the_one_that_was_killed(self):
        for warmup_steps in (2, 1000):
            with self.subTest(warmup_steps=warmup_steps), tempfile.TemporaryDirectory() as name:
                self.assert_blamed(in_ranks(lambda: killed(pathlib.Path(name), warmup_steps), RANKS), 2)

    def assert_blamed(self, results, victim):
        for rank, (status, output) in enumerate(results):
            if rank == victim:
                self.assertEqual(status, -signal.SIGKILL, output)
            else:
                self.assertEqual(status, 0, output)
                self.assertRegex(output, f"PeerFailed of rank {victim}: .*rank {victim}")

    def test_a_rank_that_is_killed_while_others_wait_in_a_group_of_the_callers(self):
        """Not all of them hear from it there."""
        with tempfile.TemporaryDirectory() as name:
            self.assert_blamed(in_ranks(lambda: killed(pathlib.Path(name), 1000, group=True), RANKS), 2)

    def test_a_rank_that_is_killed_while_one_waits_in_a_dense_bucket_and_one_in_a_sparse_one(self):
        with tempfile.TemporaryDirectory() as name:
            self.assert_blamed(in_ranks(lambda: killed_behind_a_dense_bucket(pathlib.Path(name)), 3), 2)

    def test_a_rank_that_is_killed_at_any_moment(self):
        seed = int(os.environ.get("SPARSECOLL_TEST_SEED", time.time_ns()))
        print("seed", seed)
        draw = random.Random(seed)
        for _ in range(int(os.environ.get("SPARSECOLL_TEST_KILLS", "3"))):
            ranks, after = draw.choice((3, 4)), draw.uniform(0, 0.3)
            victim = draw.randrange(ranks)
            with self.subTest(ranks=ranks, victim=victim, after=after):
                self.assert_blamed(in_ranks(lambda: killed_at_any_moment(victim, after), ranks), victim)

    def interrupt(self, *arguments):
        """Exit statuses and outputs of two ranks after Ctrl-C, which a terminal sends to both."""
        told = []
        before = signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
        processes = launch.start(__file__, ["interrupted", *arguments], 2)
        try:
            for process in processes:
                line = process.stdout.readline()
                self.assertEqual(line, "trains\n")
            while arguments and not told:
                time.sleep(0.05)
            for process in processes:
                process.send_signal(signal.SIGINT)
            return launch.finish(processes, QUICK.op_timeout / 2)  # and not at the deadline of the state
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_ctrl_c(self):
        for status, output in self.interrupt():
            self.assertIn(status, (1, -signal.SIGINT), output)
            self.assertRegex(output, "KeyboardInterrupt|PeerFailed")
            self.assertNotRegex(output, "terminate called|Segmentation|core dumped")

    def test_ctrl_c_while_a_rank_does_not_come(self):
        (first, output), (second, others) = self.interrupt("late")
        self.assertIn(first, (1, -signal.SIGINT), output)
        self.assertIn("KeyboardInterrupt", output)
        self.assertEqual(second, 4, others)
        self.assertRegex(others, "PeerFailed of rank 0")

    def test_ctrl_c_in_code_of_the_trainers_own(self):
        for where in ("between", "within", "unclosed"):
            with self.subTest(where):
                processes = launch.start(__file__, ["outside", where], 2)
                self.assertEqual(processes[0].stdout.readline(), "waits\n")
                processes[0].send_signal(signal.SIGINT)
                (first, output), (second, others) = launch.finish(processes)
                self.assertIn(first, (1, -signal.SIGINT), output)
                self.assertIn("KeyboardInterrupt", output)
                self.assertEqual("ended cleanly" in output, where != "unclosed", output)
                self.assertEqual(second, 4, others)
                self.assertRegex(others, "PeerFailed of rank 0")


if __name__ == "__main__":
    if sys.argv[1:2] in (["interrupted"], ["outside"]):
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        if sys.argv[1] == "interrupted":
            interrupted()
        elif sys.argv[2] == "unclosed":
            interrupted_unclosed()
        else:
            interrupted_outside(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *(sys.argv[1:] or ["Starts"])], verbosity=2)
