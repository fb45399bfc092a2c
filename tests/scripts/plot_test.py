"""scripts/plot on a small made file. usage: plot_test.py SCRIPT   (exit status 77: no matplotlib)"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)


def line(**fields):
    return json.dumps(fields) + "\n"


def training(preset, density, steps_done=0, first=0, last=40, **run):
    text = line(event="start", preset=preset, steps_done=steps_done, run={"density": density, **run})
    for step in range(first + 10, last + 1, 10):
        text += line(event="step", preset=preset, step=step, loss=3 / step, sent_bytes=1000 * density,
                     achieved_density=density, residual_norm=step / 7, data_ms=1, forward_ms=2, backward_ms=3,
                     select_ms=1, exchange_ms=0.5, scatter_ms=0.25, update_ms=0.5)
        if step % 20 == 0:
            text += line(event="test", preset=preset, step=step, epoch=step / 20, test_accuracy=step / 100)
    return text


class Plot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="plot_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def plot(self, *texts, options=(), kind="jsonl"):
        files = []
        for number, text in enumerate(texts):
            files.append(str(self.folder / f"{number}.{kind}"))
            pathlib.Path(files[-1]).write_text(text)
        self.out = self.folder / "out"
        return subprocess.run([sys.executable, SCRIPT, *files, "--out", str(self.out), *options],
                              capture_output=True, text=True)

    def drawn(self):
        return sorted(path.name for path in self.out.iterdir()) if self.out.exists() else []

    def test_every_figure(self):
        done = self.plot(training("dense", 1.0) + training("topka", 0.01), training("micro", 0.01))
        if done.returncode == 77:
            self.skipTest("no matplotlib")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = ["density", "loss", "metric-bytes", "metric-steps", "residual", "times"]
        self.assertEqual(self.drawn(), [f"{name}.svg" for name in names])
        for name in names:
            text = (self.out / f"{name}.svg").read_text()
            self.assertIn("<svg", text)
            for preset in ("dense", "topka", "micro"):
                self.assertIn(f"<!-- {preset}", text, name)
        before = {name: (self.out / f"{name}.svg").read_bytes() for name in names}
        self.plot(training("dense", 1.0) + training("topka", 0.01), training("micro", 0.01))
        for name in names:
            self.assertEqual(before[name], (self.out / f"{name}.svg").read_bytes())

    def test_seeds_are_one_line_with_their_spread(self):
        done = self.plot(training("dense", 1.0, seed=1), training("dense", 1.0, seed=2), training("topka", 0.01, seed=1))
        if done.returncode == 77:
            self.skipTest("no matplotlib")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = (self.out / "metric-bytes.svg").read_text()
        self.assertIn("<!-- dense, 2 runs", text)
        self.assertIn("FillBetweenPolyCollection_1" if "FillBetween" in text else "PolyCollection_1", text)
        self.assertIn("<!-- test accuracy in %", text)
        self.assertIn("$\\mathdefault{10^{", text)  # bytes on a logarithmic axis

    def test_what_is_not_there_is_left_out(self):
        text = line(event="start", preset="dense", run={}) + line(event="step", preset="dense", step=1, loss=2.0)
        done = self.plot(text, options=("--format", "png"))
        if done.returncode == 77:
            self.skipTest("no matplotlib")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.drawn(), ["loss.png"])
        self.assertIn("residual: nothing to draw", done.stdout)

    def test_files_that_are_no_metrics(self):
        rows = [
            ("", "holds no training"),
            ("{}\n", "line 1: no JSON object with 'event'"),
            ("[1]\n", "line 1: no JSON object"),
            (training("dense", 1.0)[:-20], "line 7: no JSON object"),
            (line(event="step", preset="micro", step=1), "line 1: 'micro' has not started"),
            (line(event="start", preset="a") + line(event="step", preset="a"), "line 2: no 'step'"),
        ]
        for text, reason in rows:
            done = self.plot(text)
            self.assertEqual(done.returncode, 1, reason)
            self.assertIn(reason, done.stderr)
        self.assertEqual(self.drawn(), [])

    def links(self, *rows):
        """Rows: rate, Mbit/s, filled, n, milliseconds of dense and of topka."""
        text = "# a comment\nrate,mbit,filled,hosts,n,preset,density,ms,best_ms,sent_bytes,ring_ms,load\n"
        for rate, mbit, filled, n, dense, topka in rows:
            for preset, ms in (("dense", dense), ("topka", topka)):
                text += f"{rate},{mbit},{filled},4,{n},{preset},0.01,{ms},1,8,1,0.5\n"
        return text

    def test_where_sparse_stops_to_pay(self):
        # On logarithmic axes dense falls from 100 to 1 and topka stays: they cross half way.
        rows = [("10gbit", 10000, "yes", 1000000, 1, 10), ("100mbit", 100, "yes", 1000000, 100, 10),
                ("100gbit", 100000, "no", 1000000, 900, 1), ("1gbit", 1000, "yes", 16000000, 50, 5)]
        done = self.plot(self.links(*rows), kind="csv")
        if done.returncode == 77:
            self.skipTest("no matplotlib")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("plot: n 1000000: topka is faster than dense up to 1 Gbit/s\n", done.stdout)
        self.assertIn("plot: n 16000000: topka and dense do not cross between 1 and 1 Gbit/s\n", done.stdout)
        self.assertEqual(self.drawn(), ["crossing.svg"])
        text = (self.out / "crossing.svg").read_text()
        for words in ("<!-- 1 Gbit/s", "<!-- topka", "<!-- 16 million elements"):
            self.assertIn(words, text)

    def test_files_that_hold_no_links(self):
        unfilled = self.links(("1gbit", 1000, "no", 1000000, 50, 5))
        no_dense = "\n".join(line for line in self.links(("1gbit", 1000, "yes", 10, 50, 5)).split("\n") if "dense" not in line)
        for text, reason in (("a,b\n1,2\n", "no CSV of `make crossing`"), (unfilled, "no link that was filled"),
                             (no_dense, "no dense sums")):
            done = self.plot(text, kind="csv")
            self.assertEqual(done.returncode, 1, reason)
            self.assertIn(reason, done.stderr)

    def test_usage(self):
        for arguments in ([], ["--out"], ["a", "--frmat", "x"], ["a", "--format", "gif"]):
            done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, arguments)
        helped = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True)
        self.assertEqual(helped.returncode, 0)
        self.assertIn("usage: scripts/", helped.stdout)

    def test_bytes_and_resumed_runs(self):
        import importlib.machinery
        import importlib.util

        loader = importlib.machinery.SourceFileLoader("plot", SCRIPT)
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("plot", loader))
        sys.dont_write_bytecode = True
        loader.exec_module(module)
        # Stopped after step 30, went on from a checkpoint after step 20.
        path = self.folder / "resumed.jsonl"
        path.write_text(training("micro", 0.5, last=30) + training("micro", 0.5, steps_done=20, first=20))
        (one,) = module.read(path)
        self.assertEqual([row["step"] for row in one.steps], [10, 20, 30, 40])
        self.assertEqual([row["step"] for row in one.tests], [20, 40])
        self.assertEqual(one.bytes_after(40), 20000)
        self.assertEqual(one.bytes_after(25), 12500)
        self.assertEqual(module.merged([([1, 2], [3, 4]), ([1, 2, 3], [5, 8, 9])]),
                         ([1, 2], [4, 6], [3, 4], [5, 8]))
        other = module.Training({"preset": "dense", "run": {"density": 1, "error_feedback": True, "seed": 2}}, 0)
        one.start["run"].update(error_feedback=False, seed=1)
        varying = module.varying_settings([one, other])
        self.assertEqual(one.label(varying), "micro, density 0.5, no error feedback, seed 1")
        self.assertEqual(other.label(varying), "dense, seed 2")


if __name__ == "__main__":
    program = unittest.main(verbosity=1, exit=False)
    result = program.result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
