"""scripts/gpu-half-hour in front of a GPU that is made up: programs that are good, hang, crash or die in the middle of
their JSON. Whatever they do, a command ends and leaves one archive that says what became of each item.

usage: gpu_half_hour_test.py ROOT [BUILD]    BUILD: a build with CUDA, whose targets the table's programs have to be
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
BUILD = sys.argv.pop(1) if len(sys.argv) > 1 else None
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
from gpu_half_hour import table  # noqa: E402

HANG = "trap '' TERM; while :; do sleep 1; done"
DRIVER = "echo 'NVIDIA Made-up, 580.1, 9.0'"
# Writes the JSON that is asked for, whatever the program.
GOOD = """
while [ $# != 0 ]; do
  case $1 in
    --json) file=$2 ;;
    --n | -n) n=$2 ;;
    --graph) graph=1 ;;
    --only) only=$2 ;;
    bench/device/torch_baseline.py) torch=1 ;;
  esac
  shift
done
[ -n "$file" ] || exit 0
n="\\"n\\": ${n:-0}"
low='"density": 0.001'
us='"median_us": 80, "best_us": 79, "gbps": 4000, "wrong": 0'
us="$us, "'"of_copy": 0.9, "of_inplace_add": 1'
step='"preset": "topka", "density": 0.01, "ranks": "threads:4", "speedup_dense": 2, "wrong": null'
step="$step, "'"total_us": 9, "p99_us": 9, "local_us": 5, "xroof": 1.2'
case ${torch:-${0##*/}} in
  1) row="\\"operation\\": \\"torch_topk\\", $us, $n, $low" ;;
  *-device) row="\\"operation\\": \\"exact_topk\\", $us, $n, $low" ;;
  *-rivals) row="\\"operation\\": \\"$only\\", $us, $n, $low" ;;
  *) row="$step, $n" ;;
esac
graph=${graph:+true}
echo "{\\"context\\": {\\"graph\\": ${graph:-false}}, \\"benchmarks\\": [{$row}], \\"rows\\": [{$row}]}" > "$file"
"""
TOOLS = {"nvidia-smi": DRIVER, "compute-sanitizer": "exit 0", "ncu": "exit 0", "python3": GOOD}
PROGRAMS = {"sparsecoll-perf": GOOD, "sparsecoll-device": GOOD, "sparsecoll-rivals": GOOD}
PROGRAMS.update({f"device_{name}_test": "exit 0" for name in ("steps", "messages", "pass", "cut", "lists", "vectors")})


class Made(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpu_half_hour_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        self.fill("bin", TOOLS)
        self.fill("programs", PROGRAMS)

    def fill(self, place, programs):
        (self.folder / place).mkdir(exist_ok=True)
        for name, script in programs.items():
            path = self.folder / place / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)

    def run_script(self, *words):
        place = f"{self.folder / 'bin'}:/usr/bin:/bin"
        # Whoever hangs is ended here, long after it should have been.
        return subprocess.run([sys.executable, ROOT / "scripts/gpu-half-hour", *map(str, words)], timeout=240,
                              env={**os.environ, "PATH": place}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)

    def command(self, number, expected, scale=0.1):
        """Runs it; what became of each item."""
        done = self.run_script(number, self.out, "--programs", self.folder / "programs", "--commit", "abc 1", "--scale",
                               scale)
        self.assertEqual(done.returncode, expected, done.stdout)
        self.nothing_is_left()
        self.files = self.archive(number)
        self.assertEqual(os.listdir(self.out), [f"gpu-half-hour-{number}.tar.gz"])
        return dict(line.split(": ", 1) for line in self.files["checks.txt"].splitlines())

    def archive(self, number):
        with tarfile.open(self.out / f"gpu-half-hour-{number}.tar.gz") as archive:
            return {os.path.basename(member.name): archive.extractfile(member).read().decode() for member in archive}

    def expect(self, checks, **beginnings):
        for name, beginning in beginnings.items():
            name = name.replace("_", "-")
            self.assertRegex(checks.get(name, "not noted"), "^" + re.escape(beginning), (name, checks))

    def test_all_good(self):
        done = self.run_script("all", self.out, "--programs", self.folder / "programs", "--commit", "abc 1", "--scale",
                               "0.5", "--results", self.folder / "results")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sorted(os.listdir(self.out)), [f"gpu-half-hour-{number}.tar.gz" for number in range(1, 6)])
        (record,) = (self.folder / "results" / "made-up").glob("*-abc-1.json")
        record = json.loads(record.read_text())
        self.assertEqual(record["broken"], [])
        bad = {name: text for name, text in record["checks"].items() if not text.startswith("passed")}
        self.assertEqual(bad, {})
        named = {item.name for command in table.COMMANDS.values() for item in command.items}
        tests = {f"test-{name}" for name in ("pass", "cut", "lists", "vectors")}
        self.assertEqual(set(record["checks"]), named - {"test"} | tests)
        ours, others = (25000000, 100000000, 1000000000), (25000000, 100000000)
        self.assertEqual({(row["operation"], row["n"]) for row in record["device"]["benchmarks"]},
                         {("exact_topk", n) for n in ours} |
                         {(name, n) for name in ("torch_topk", "cub_topk", "cub_sort,cub_select") for n in others})
        self.assertEqual(len(record["steps"]), 2 * len(table.PRESETS))

    def test_no_device(self):
        (self.folder / "bin" / "nvidia-smi").unlink()
        self.expect(self.command(1, 2), begin="FAILED (no GPU or no driver here: nvidia-smi: ")
        self.fill("bin", {"nvidia-smi": "echo No devices were found; exit 6"})
        self.expect(self.command(1, 2), begin="FAILED (no GPU or no driver here: exit status 6 No devices were found)")

    def test_no_programs(self):
        done = self.run_script(1, self.out, "--archive", self.folder / "nowhere.tar.xz")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("scripts/gpu-half-hour pack makes it", self.archive(1)["checks.txt"])

    def test_what_can_happen_to_an_item(self):
        self.fill("bin", {"nvidia-smi": HANG})
        self.fill("programs", {"device_pass_test": "echo before; kill -SEGV $$", "device_cut_test": HANG,
                               "device_steps_test": 'echo "No test cases matched"',
                               "sparsecoll-device": 'echo started; while [ "$1" != --json ]; do shift; done; '
                                                    'printf \'{"context": \' > "$2"'})
        (self.folder / "programs" / "sparsecoll-perf").unlink()
        checks = self.command(1, 1, scale=0.05)
        self.expect(checks, begin="passed", start="skipped: there is no sparsecoll-perf",
                    cut="FAILED (timeout after 3 s", steps_short="FAILED (nothing was run",
                    operations_first="FAILED (its JSON is cut short")
        self.assertRegex(checks["pass"], r"^FAILED \(SIGSEGV; ")
        self.assertIn("before", self.files["pass.log"])
        self.assertEqual(self.files["operations-first.json"], '{"context": ')
        self.assertIn("gpu unknown\n", self.files["machine.txt"])
        self.assertIn("commit abc 1\n", self.files["machine.txt"])

    def test_skips_are_for_those_that_may(self):
        self.fill("programs", {"device_vectors_test": "echo skipped: too few; exit 77", "device_steps_test": "exit 77",
                               "device_lists_test": "exit 3"})
        checks = self.command(2, 1)
        self.expect(checks, test_vectors="skipped: too few", steps="FAILED (exit status 77", test_cut="passed",
                    test_lists="FAILED (exit status 3")

    def test_out_of_time(self):
        self.fill("bin", {"compute-sanitizer": HANG})
        checks = self.command(4, 1, scale=0.02)
        names = [item.name for item in table.SANITIZER]
        self.assertEqual(set(checks), {"begin", *names})
        for name in names[:4]:
            self.assertRegex(checks[name], r"^FAILED \(timeout after ")
        for name in names[4:]:
            self.assertEqual(checks[name], "not run: out of time")

    def test_the_worker_dies(self):
        self.fill("bin", {"ncu": '[ "$1" = --version ] || { kill -KILL $PPID; ' + HANG + "; }"})
        checks = self.command(5, 1)
        names = [item.name for item in table.PROFILES]
        self.assertEqual(checks[names[0]], "FAILED (cut off)")
        for name in names[1:]:
            self.assertEqual(checks[name], "not run: cut off")

    def test_the_worker_hangs(self):
        self.fill("bin", {"ncu": '[ "$1" = --version ] || { kill -STOP $PPID; ' + HANG + "; }"})
        checks = self.command(5, 1, scale=0.03)
        self.assertEqual(checks["ncu-passTiles"], "FAILED (cut off)")

    def nothing_is_left(self):
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                self.assertNotIn(str(self.folder).encode(), (folder / "cmdline").read_bytes())
            except OSError:
                continue

    def test_long_logs_lose_their_middle(self):
        self.fill("programs", {"device_steps_test": "echo begin; yes | head -c 3000000; echo end"})
        self.command(2, 0)
        log = self.files["steps.log"]
        self.assertLess(len(log), 1100000)
        self.assertTrue(log.startswith("begin\n") and log.endswith("end\n"))

    def test_children_are_ended_with_their_program(self):
        self.fill("programs", {"device_pass_test": f"sh -c \"trap '' TERM; sleep 100000; : {self.folder}\" & exit 0"})
        self.expect(self.command(1, 0), start="passed")

    def test_calls_that_are_not_fit(self):
        for words in (("6", self.out), ("1",), ("pack", self.out), ("1", self.out, "--fast")):
            self.assertEqual(self.run_script(*words).returncode, 2, words)


class Table(unittest.TestCase):
    """What the table names exists."""

    def test_budgets(self):
        self.assertEqual(sum(command.budget for command in table.COMMANDS.values()), 1500)
        for command in table.COMMANDS.values():
            names = [item.name for item in command.items]
            self.assertEqual(len(set(names)), len(names))
            for item in command.items:
                self.assertLessEqual(item.least, item.limit)
                self.assertRegex(item.name, r"^[A-Za-z0-9.-]+$")

    def test_names_in_sources(self):
        cases = re.findall(r'TEST_CASE\("([^"]*)"', (ROOT / "tests/cuda/steps_test.cpp").read_text())
        kernels = "".join(path.read_text() for path in (ROOT / "cuda").glob("*.cu"))
        for item in (item for command in table.COMMANDS.values() for item in command.items):
            if "device_steps_test" in item.words:
                wanted = item.words[-1].rstrip("*")
                self.assertTrue(any(case.startswith(wanted) for case in cases), wanted)
            for word in item.words:
                if word.startswith("regex:"):
                    self.assertRegex(kernels, rf"__global__[^;{{}}]*\b{word.removeprefix('regex:')}\(")

    @unittest.skipUnless(BUILD, "needs a build with CUDA")
    def test_programs_take_their_words(self):
        programs = {"sparsecoll-perf": "--dry-run", "sparsecoll-device": "--list"}  # neither asks for a device
        missing = [name for name in programs if not (pathlib.Path(BUILD) / "bin" / name).exists()]
        if missing:
            self.skipTest(f"{missing} are not built")
        for item in (item for command in table.COMMANDS.values() for item in command.items):
            for place, word in enumerate(item.words):
                if word in programs:
                    words = [pathlib.Path(BUILD) / "bin" / word, *item.words[place + 1:], programs[word]]
                    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                    self.assertEqual(done.returncode, 0, (words, done.stdout))

    @unittest.skipUnless(BUILD, "needs a build with CUDA")
    def test_programs_are_targets(self):
        known = subprocess.run(["cmake", "--build", BUILD, "--target", "help"], check=True, capture_output=True,
                               text=True).stdout
        for program in table.named_programs():
            self.assertRegex(known, rf"(?m)^(\.\.\. )?{re.escape(program)}\b")


if __name__ == "__main__":
    unittest.main(verbosity=2)
