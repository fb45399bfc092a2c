"""scripts/demo with a trainer that is made up, and with the real one in few steps.

usage: demo_test.py ROOT [BIN]   BIN: a folder with sparsecoll-cnn and sparsecoll-run
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
BIN = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None

TRAINER = """#!/usr/bin/env python3
import json, os, sys
words = dict(zip(sys.argv[1:], sys.argv[2:]))
rate = os.environ.get("SPARSECOLL_RATE", "")
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps({"rate": rate, "rank": os.environ.get("RANK", ""), "words": sys.argv[1:]}) + "\\\\n")
if rate == os.environ.get("FAILS_AT", "never"):
    sys.exit("out of images")
times = {"": (50, 40, 45), "100M": (200, 50, 80), "1G": (60, 48, 60)}[rate]
rows = [{"preset": name, "sent_bytes_per_step": 1618536.0 if name == "dense" else 64860.0, "step_ms": ms, "test_accuracy": 0.5}
        for name, ms in zip(words["--preset"].split(","), times)]
with open(words["--json"], "w") as file:
    json.dump({"context": {"preset": "none"}, "rows": rows}, file, indent=2)
""".replace("\\\\n", "\\n")

# The launcher's part: the ranks of a real job, too, share the file of rank 0.
LAUNCHER = """#!/bin/sh
[ "$1 $2 $3" = "-n 4 --" ] || exit 3
shift 3
RANK=0 exec "$@"
"""

# The real trainer with fewer steps and images, which are made up.
SHORTER = """#!/usr/bin/env bash
words=()
while [ $# -gt 0 ]; do
  case $1 in
    --max-steps) words+=(--max-steps 4) ;;
    --batch-size) words+=(--batch-size 2) ;;
    --train-limit | --test-limit) words+=($1 64) ;;
    --data | --data-dir) ;;
    --no-recipe) words+=($1); shift; continue ;;
    *) words+=("$1" "$2") ;;
  esac
  shift 2
done
exec "%s" "${words[@]}" --data synthetic
"""


class Demo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="demo_test_")
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.bin = self.tree / "build/demo/bin"
        self.bin.mkdir(parents=True)
        (self.tree / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/demo", self.tree / "scripts/demo")  # without plot: no pictures

    def program(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def demo(self, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARSECOLL_")}
        environment["CALLS"] = str(self.tree / "calls")
        return subprocess.run([self.tree / "scripts/demo"], env={**environment, **variables}, capture_output=True, text=True)

    def calls(self):
        return [json.loads(line) for line in (self.tree / "calls").read_text().splitlines()]

    def test_what_it_says(self):
        self.program("sparsecoll-cnn", TRAINER)
        self.program("sparsecoll-run", LAUNCHER)
        done = self.demo()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("demo: at 100 Mbit/s a step took 200 ms with dense, whose 1.62 MB take at least 129 ms on the link; "
                      "50 ms with topka, 4.0 times as fast; 80 ms with dgc, 2.5 times as fast\n", done.stdout)
        self.assertIn("demo: at 1 Gbit/s a step took 60 ms with dense, whose 1.62 MB take at least 13 ms on the link; "
                      "48 ms with topka, 1.2 times as fast; 60 ms with dgc, 1.0 times as fast\n", done.stdout)
        self.assertIn("demo: at 1 Gbit/s computing dominates, as the model is small: 47 of the 60 ms are not the link's\n",
                      done.stdout)
        self.assertNotIn("at 100 Mbit/s computing dominates", done.stdout)
        self.assertIn("SPARSECOLL_RATE is no network", done.stdout)
        self.assertEqual([(call["rate"], call["rank"]) for call in self.calls()], [("", ""), ("100M", "0"), ("1G", "0")])
        for call in self.calls():
            self.assertEqual("--no-recipe" in call["words"], call["rate"] != "", "at the final density from the first step")

    def test_a_training_on_a_link_that_fails(self):
        self.program("sparsecoll-cnn", TRAINER)
        self.program("sparsecoll-run", LAUNCHER)
        done = self.demo(FAILS_AT="1G")
        self.assertEqual(done.returncode, 1)
        self.assertIn("out of images", done.stderr)
        self.assertNotIn("at 1 Gbit/s a step", done.stdout)

    def test_without_programs(self):
        done = self.demo()
        self.assertEqual(done.returncode, 1)
        self.assertIn("run 'make demo'", done.stderr)

    @unittest.skipIf(BIN is None, "no trainer was built")
    def test_the_trainer_itself(self):
        self.program("sparsecoll-cnn", SHORTER % (BIN / "sparsecoll-cnn"))
        (self.bin / "sparsecoll-run").symlink_to(BIN / "sparsecoll-run")
        done = self.demo()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for link in ("100 Mbit/s", "1 Gbit/s"):
            self.assertRegex(done.stdout, f"demo: at {link} a step took [1-9][0-9]* ms with dense, whose 1.62 MB take at least "
                             r"\d+ ms on the link; \d+ ms with topka, [\d.]+ times as fast; \d+ ms with dgc, ")
        ranks = json.loads((self.tree / "build/demo/results/link-1G.json").read_text())["rows"][0]["ranks"]
        self.assertEqual(ranks, 4)


if __name__ == "__main__":
    unittest.main(verbosity=1)
