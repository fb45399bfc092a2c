"""scripts/convergence with trainers that only pretend: what is run, skipped, kept and written.

usage: convergence_test.py SCRIPT
"""
import importlib.machinery
import importlib.util
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)
sys.dont_write_bytecode = True

# Writes its command to calls.txt and results that depend on preset and seed.
PRETENDER = """#!/bin/sh
here=$(dirname "$0")
echo "$(basename "$0") $*" >> "$here/calls.txt"
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=$2 ;; --seed) seed=$2 ;; --metrics) metrics=$2 ;; --json) json=$2 ;; --density) density=$2 ;;
    --recipe) recipe=yes ;;
  esac
  shift
done
[ -e "$here/fail" ] && [ "$preset" = deft ] && { echo "out of luck" >&2; exit 1; }
value=0.5$seed
[ "$preset" = micro ] && value=null
for name in test_accuracy validation_perplexity HR@10; do
  echo '{"event": "test", "step": 10, "'$name'": 0.25}' >> "$metrics.$name"
  echo '{"event": "test", "step": 20, "'$name'": '$value'}' >> "$metrics.$name"
done
echo '{"event": "start"}' > "$metrics"
for step in $(seq 1 50); do
  echo '{"event": "step", "step": '$step', "loss": 2.00001, "sent_bytes": 50, "achieved_density": 0.1, "lr": 1}' >> "$metrics"
done
paste -d ' ' "$metrics.test_accuracy" "$metrics.validation_perplexity" "$metrics.HR@10" |
  sed 's/} {"event": "test", "step": [0-9]*,/,/g' >> "$metrics"
sent=1000
[ "$preset" = dense ] || sent=50
[ -z "$recipe" ] || sent=80
cat > "$json" << END
{"context": {"synthetic": "no", "library": {"commit": "abc1234"}}, "rows": [{"parameters": 7, "steps": 20,
 "train_loss": 0.123456789, "sent_bytes_per_step": $sent, "achieved_density": ${density:-1}}]}
END
"""


class Convergence(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="convergence_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        loader = importlib.machinery.SourceFileLoader("convergence", SCRIPT)
        self.module = importlib.util.module_from_spec(importlib.util.spec_from_loader("convergence", loader))
        loader.exec_module(self.module)
        self.module.ROOT = self.folder
        self.module.RESULTS = self.folder / "results"
        self.module.DOCUMENT = self.folder / "convergence.md"
        self.module.SHORT_DOCUMENT = self.folder / "convergence" / "short.md"
        self.module.FIGURES = self.folder / "figures"
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for trainer in self.module.TRAINERS:
            program = self.bin / f"sparsecoll-{trainer.program}"
            program.write_text(PRETENDER)
            program.chmod(0o755)
        self.output = io.StringIO()

    def run_script(self, *arguments):
        with contextlib.redirect_stdout(self.output), contextlib.redirect_stderr(self.output):
            return self.module.main(["--bin", str(self.bin), "--data", str(self.folder / "data"), *arguments])

    def short_page(self):
        return self.module.SHORT_DOCUMENT.read_text()

    def calls(self):
        path = self.bin / "calls.txt"
        return path.read_text().splitlines() if path.exists() else []

    def test_keeps_a_trace_of_the_steps(self):
        self.assertEqual(self.run_script("--trainers", "ncf", "--seeds", "1"), 0, self.output.getvalue())
        run = json.loads((self.module.RESULTS / "ncf.jsonl").read_text().splitlines()[1])
        self.assertEqual(run["trace"]["step"], list(range(1, 51, 3)))  # at most 24 of 50
        self.assertEqual(set(run["trace"]["loss"]), {2.0})
        self.assertEqual(run["trace"]["residual_norm"], [None] * 17)
        drawn = self.module.pyplot() is not None
        self.assertEqual((self.module.FIGURES / "convergence-ncf-density.svg").exists(), drawn)
        self.assertEqual("(../figures/convergence-ncf-density.svg)" in self.short_page(), drawn)

    def test_verdict_compares_with_the_spread_of_dense(self):
        trainer = self.trainer("ncf")
        dense, sparse = self.module.Row("dense", 4), self.module.Row("topka", 4)

        def verdict(*finals):
            found = {}
            for row, values in zip((dense, sparse), finals):
                for seed, value in enumerate(values, 1):
                    key = self.module.identity(trainer, row, seed)
                    found[key] = {"id": key, "tests": [[20, value]]}
            return self.module.verdict(trainer, sparse, found)

        self.assertEqual(verdict((0.51, 0.52), (0.52, 0.53)), "yes")  # a point away, deviations of 0.7 points
        self.assertEqual(verdict((0.51, 0.52), (0.49, 0.50)), "no")
        self.assertEqual(verdict((0.51, 0.52), (0.53, 0.54)), "no")
        self.assertEqual(verdict((0.51, 0.53, 0.52), (0.53,)), "yes")  # two points from its own seed's, a deviation of one
        self.assertEqual(verdict((0.51, 0.53, 0.52), (0.54,)), "no")  # two points from all of dense's
        self.assertEqual(verdict((0.51,), (0.51,)), "-")
        self.assertEqual(verdict((0.51, 0.52), (0.51, None)), "-")

    def test_runs_once_and_reports(self):
        (self.folder / "data" / "ml-latest-small").mkdir(parents=True)
        self.assertEqual(self.run_script("--trainers", "ncf", "--seeds", "1"), 0, self.output.getvalue())
        rows = list(self.trainer("ncf").rows())
        calls = self.calls()
        self.assertEqual(len(calls), len(rows))
        self.assertIn("--preset dense --ranks 4 --batch-size 1024 --seed 1 --sharding iid", calls[0])
        self.assertIn(f"--data-dir {self.folder / 'data' / 'ml-latest-small'}", calls[0])
        self.assertNotIn("--density", calls[0])
        self.assertEqual(sum("--no-error-feedback" in call for call in calls), 1)
        self.assertEqual(sum(" --recipe" in call for call in calls), 10)
        self.assertEqual(sum("--preset micro" in call and "--density 0.25 --recipe" in call for call in calls), 1)
        self.assertEqual(sum("--preset sage" in call and "--density 0.067 --recipe" in call for call in calls), 1)
        self.assertEqual(sum("--preset dense" in call and "recipe" in call for call in calls), 0)
        self.assertEqual(sum("--sharding contiguous" in call for call in calls), 2)
        self.assertEqual(sum("--ranks 8 --batch-size 512" in call for call in calls), 7)

        self.assertEqual(self.run_script("--trainers", "ncf", "--seeds", "1,2"), 0)
        self.assertEqual(len(self.calls()), 2 * len(rows))
        text = self.short_page()
        # 0.51 and 0.52: a mean of 51.5 and two deviations of 1.41 points.
        self.assertIn("| method | sent / dense | HR@10, % | gap, 4 ranks | gap, 8 ranks |\n", text)
        self.assertIn("| dense | 1.0000 | 51.5 ±1.4 | - | - |\n", text)
        self.assertIn("| topka | 0.0500 | 51.5 ±1.4 | +0.0 ±0.0* | +0.0 ±0.0* |\n", text)
        self.assertIn("| micro | 0.0500 | diverged | - | - |\n", text)
        self.assertIn("| topka, recipe | 0.0800 | 51.5 ±1.4 | +0.0 ±0.0* |  |\n", text)
        self.assertIn("| deft, recipe, density x 2.5 | 0.0800 | 51.5 ±1.4 | +0.0 ±0.0* |  |\n", text)
        self.assertIn("| topka, no error feedback | 0.0500 | 51.5 ±1.4 | +0.0 ±0.0* |  |\n", text)
        self.assertIn("| topka, contiguous shards | 0.0500 | 51.5 ±1.4 | +0.0 ±0.0* |  |\n", text)
        self.assertNotIn("dense, contiguous shards", text)
        self.assertIn("Seeds: 2 with 4 ranks, 2 with 8 ranks.", text.replace("\n", " "))

        self.output.truncate(0)
        self.assertEqual(self.run_script("--tables"), 0)
        self.assertEqual(len(self.calls()), 2 * len(rows))
        tables = self.output.getvalue()
        self.assertRegex(tables, r"Run on \d{4}-\d\d-\d\d at abc1234\.\n")
        self.assertIn("| dense | 51.5 % ± 1.4 | - | - | 1 kB | 1.0000 | 20.0 | - | 1 | 2 |", tables)
        self.assertIn("| topka | 51.5 % ± 1.4 | +0.0 ± 0.0 points | yes | 50 B | 0.0500 | 1.0 | - | 0.1 | 2 |", tables)
        # 30 bytes more in each of 20 steps; a dense step has 1000.
        self.assertIn("| topka, recipe | 51.5 % ± 1.4 | +0.0 ± 0.0 points | yes | 80 B | 0.0800 | 1.6 | +0.6 | 0.1 | 2 |", tables)
        # There is none of that density without the recipe to compare with.
        self.assertIn("| 80 B | 0.0800 | 1.6 | - | 0.25 | 2 |", tables)
        self.assertIn("| dense, contiguous shards | 51.5 % ± 1.4 |", tables)
        self.assertIn("NeuMF on MovieLens, 8 ranks\n", tables)
        # The command that is shown is one that was run.
        shown = tables.split("sparsecoll-ncf ")[1].split("\n")[0]
        self.assertIn("--preset topka --ranks 4 --batch-size 1024 --seed 1 --sharding iid", shown)
        self.assertIn("--density 0.1", shown)
        shown = shown.replace("DATA/", f"{self.folder / 'data'}/")
        self.assertTrue(any(f"sparsecoll-ncf {shown} --metrics" in call for call in calls), shown)
        self.assertIn("Not run yet.", text)
        size = sum(path.stat().st_size for path in self.module.RESULTS.iterdir())
        everything = len(self.module.TRAINERS) * len(rows) * 3
        self.assertLess(size / len(self.calls()) * everything, 75000 * len(self.module.TRAINERS))

    def trainer(self, name):
        return next(trainer for trainer in self.module.TRAINERS if trainer.name == name)

    def test_to_the_end_methods_have_the_recipe_first(self):
        self.assertEqual(self.run_script("--trainers", "cnn-long", "--seeds", "1,2"), 0, self.output.getvalue())
        calls = self.calls()
        self.assertTrue(all(call.startswith("sparsecoll-cnn ") for call in calls))
        methods = len(self.module.METHODS) + len(self.trainer("cnn-long").more)
        self.assertEqual([" --recipe" in call for call in calls[:1 + methods]], [False] + methods * [True])
        # Rows that are compared once have the first seed: of another density, of 8 ranks, and those without the recipe.
        again = [call for call in calls if "--seed 2 " in call]
        as_many = len(self.module.GLOBAL_DENSITY)
        self.assertEqual(len(again), 1 + methods + as_many)
        self.assertTrue(all("--ranks 4 " in call and "--density 0.001 " not in call for call in again))
        self.assertEqual(len([call for call in calls if "--density 0.001 --recipe" in call]), methods)
        self.assertEqual(len([call for call in calls if "--density 0.0025 --recipe" in call]), 2)  # deft, micro
        self.assertEqual(len([call for call in calls if "--density 0.025 --recipe" in call]), 4)  # likewise, two seeds
        self.assertEqual(len([call for call in calls if "--ranks 8 " in call]), 1 + methods)
        text = self.module.DOCUMENT.read_text()
        self.assertIn("| gap, 4 ranks | gap, density 0.001 | gap, 8 ranks |\n", text)
        self.assertIn("| dense | 1.0000 | 51.5 ±1.4 | - |  | - |\n", text)
        # One seed has no spread of its own: with 8 ranks that of 4 ranks' dense seeds counts.
        self.assertIn("| topka, recipe | 0.0800 | 51.5 ±1.4 | +0.0 ±0.0* | +0.0* | +0.0* |\n", text)
        self.assertIn("| topka | 0.0500 | 51.0 | +0.0* |  |  |\n", text)
        self.assertIn("| deft, recipe, density x 2.5 | 0.0800 | 51.5 ±1.4 | +0.0 ±0.0* | +0.0* |  |\n", text)
        self.assertNotIn("ResNet-20 on CIFAR-10, to the end", self.short_page())
        self.assertIn("Seeds: 1 to 2 with 4 ranks, 1 with density 0.001, 1 with 8 ranks.", text.replace("\n", " "))
        self.run_script("--tables")
        self.assertIn("to the end, 4 ranks, density 0.001\n", self.output.getvalue())
        self.assertIn("to the end, 8 ranks\n", self.output.getvalue())
        if self.module.pyplot() is not None:
            self.assertIn("topka, recipe", (self.module.FIGURES / "convergence-cnn-long-4.svg").read_text())

    def test_dense_alone_has_five_seeds(self):
        self.assertEqual(self.run_script("--list", "--trainers", "cnn-long,ncf"), 0)
        listed = self.output.getvalue()
        self.assertIn("cnn-long dense ranks=4 feedback=yes iid seed=5\n", listed)
        self.assertNotIn("topka ranks=4 feedback=yes iid recipe seed=4", listed)
        self.assertNotIn("ncf dense ranks=4 feedback=yes iid seed=4", listed)
        self.assertIn("ncf topka ranks=4 feedback=yes iid recipe seed=3", listed)

    def test_digits_are_no_data_dir(self):
        trainer = self.trainer("speech")
        row = self.module.Row("topka", 4, recipe=True)
        self.assertNotIn("--digits", trainer.command(self.bin, self.folder, row, 1))
        (self.folder / "fsdd").mkdir()
        command = trainer.command(self.bin, self.folder, row, 1)
        self.assertEqual(command[command.index("--digits") + 1], str(self.folder / "fsdd"))
        self.assertNotIn("--data-dir", command)

    def test_a_failed_training_is_tried_again(self):
        (self.bin / "fail").touch()
        self.assertEqual(self.run_script("--trainers", "lstm", "--seeds", "1"), 1)
        self.assertIn("5 trainings failed", self.output.getvalue())
        self.assertIn("out of luck", self.output.getvalue())
        (self.bin / "fail").unlink()
        before = len(self.calls())
        self.assertEqual(self.run_script("--trainers", "lstm", "--seeds", "1"), 0)
        self.assertEqual(len(self.calls()), before + 5)

    def test_longer_rows_have_one_seed_and_a_table_of_their_own(self):
        self.assertEqual(self.run_script("--trainers", "lstm", "--seeds", "1,2"), 0, self.output.getvalue())
        epochs = int(self.trainer("lstm").arguments["options"]["--epochs"])
        longer = [call for call in self.calls() if f"--epochs {self.module.LONGER * epochs} " in call]
        self.assertEqual(len(longer), 1 + len(self.module.METHODS))
        self.assertTrue(all("--ranks 4 " in call and "--seed 1 " in call for call in longer))
        text = self.short_page()
        self.assertIn("| gap, 4 ranks | gap, 8 ranks | gap, 4 times the epochs |\n", text)
        self.assertIn("| topka | 0.0500 | 0.5 ±0.0 | +0.0 ±0.0* | +0.0 ±0.0* | +0.0 |\n", text)
        self.assertEqual(self.run_script("--tables"), 0)
        part = self.output.getvalue().split("WikiText-2, 4 ranks, 4 times the epochs\n")[1].split("\n\n")[0]
        self.assertIn("| topka | 0.5 | +0.0 | - | 50 B | 0.0500 | 1.0 | - | 0.01 | 1 |", part)
        self.assertNotIn("contiguous", part)

    def test_results_of_other_settings_do_not_count(self):
        self.assertEqual(self.run_script("--trainers", "ncf", "--seeds", "1"), 0)
        before = len(self.calls())
        self.trainer("ncf").arguments["options"]["--factors"] = "9"
        self.assertEqual(self.run_script("--trainers", "ncf", "--seeds", "1"), 0)
        self.assertEqual(len(self.calls()), 2 * before)

    def test_made_up_data_is_named(self):
        program = self.bin / "sparsecoll-cnn"
        program.write_text(PRETENDER.replace('"synthetic": "no"', '"synthetic": "yes"'))
        self.assertEqual(self.run_script("--trainers", "cnn", "--seeds", "1"), 0)
        self.assertIn("--data synthetic", self.calls()[0])
        self.assertIn("SYNTHETIC data", self.short_page())

    def test_minutes_list_and_usage(self):
        self.assertEqual(self.run_script("--minutes", "0", "--trainers", "ncf", "--seeds", "1"), 0)
        self.assertEqual(self.calls(), [])
        self.assertIn("0.0 minutes are over", self.output.getvalue())
        self.assertEqual(self.run_script("--list", "--seeds", "3"), 0)
        self.assertIn("to do cnn dense ranks=4 feedback=yes iid seed=3", self.output.getvalue())
        for wrong in (["--what"], ["--bin"], ["--trainers", "rnn"]):
            with contextlib.redirect_stderr(self.output):
                self.assertEqual(self.module.main(wrong), 3)
        with contextlib.redirect_stdout(self.output):
            self.assertEqual(self.module.main(["--help"]), 0)
        (self.bin / "sparsecoll-lstm").unlink()
        self.assertEqual(self.run_script("--trainers", "lstm"), 1)
        self.assertIn("not built: sparsecoll-lstm", self.output.getvalue())


if __name__ == "__main__":
    unittest.main(verbosity=1)
