"""scripts/coverage on a small library. usage: coverage_test.py SCRIPT   (exit status 77: no clang with its profiler)"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)

LIBRARY = """#include "lib/few.h"
template <bool kDecided>
int both(int x) {
  if constexpr (kDecided) return x;
  if (x > 3) return 1;
  return kDecided ? 2 : 4;
}
int few(int x) {
  if (x < 5 && x > 0) return x * 2;
  return both<true>(x) + both<false>(x);
}
int never(int x) {
  if (x) return 1;
  return 2;
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.22)
project(few LANGUAGES C CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_CXX_STANDARD 20)
include_directories(${PROJECT_SOURCE_DIR})
add_library(few SHARED lib/few.cpp)
enable_testing()
foreach(x 2 9)
  add_executable(few_${x}_test test.cpp)
  target_compile_definitions(few_${x}_test PRIVATE X=${x})
  target_link_libraries(few_${x}_test PRIVATE few)
  add_test(NAME few_${x} COMMAND few_${x}_test)
endforeach()
"""


def can_profile(folder):
    (folder / "a.cpp").write_text("int main() {}")
    command = ["clang++", "-fprofile-instr-generate", "-fcoverage-mapping", folder / "a.cpp", "-o", folder / "a"]
    return all(map(shutil.which, ("clang++", "cmake", "ninja"))) and \
        any(shutil.which(name) for name in ("llvm-cov", "llvm-cov-14")) and \
        subprocess.run(command, capture_output=True).returncode == 0


class Coverage(unittest.TestCase):
    def test_outcomes(self):
        with tempfile.TemporaryDirectory(prefix="coverage_test_") as name:
            root = pathlib.Path(name)
            (root / "lib").mkdir()
            for file, text in (("lib/few.cpp", LIBRARY), ("lib/few.h", "int few(int x);\n"), ("CMakeLists.txt", CMAKE),
                               ("test.cpp", '#include "lib/few.h"\nint main() { return few(X) == 0; }\n')):
                (root / file).write_text(text)
            command = [sys.executable, SCRIPT, "--root", root, "--folders", "lib", "--targets", "few_._test"]
            done = subprocess.run([*command, "--objects", "libfew.so", "--cmake"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)  # nothing is listed yet
            # Four conditions; the compiler decides the other two. Two programs have seen 4 of 8 outcomes.
            self.assertIn("| lib | 8 | 4 | 50.0 % |", done.stdout)
            page = (root / "build" / "coverage" / "coverage.md").read_text()
            self.check_list(root, command)
        self.assertIn("- line 5: `lib/few.cpp both never false: x > 3`", page)
        self.assertIn("- line 9: `lib/few.cpp few never false: x > 0`", page)
        self.assertIn("not listed: the function is not called (2)", page)

    def check_list(self, root, command):
        """A list of what no test sees: true, about what a test has seen, and about what is gone."""
        listed = root / "tests" / "scripts" / "unseen_outcomes.txt"
        listed.parent.mkdir(parents=True)

        known = ["both never false: x > 3", "few never false: x > 0", "never never true: x", "never never false: x"]

        def after(entries, *how, why="Why."):
            listed.write_text(why + "\n" + "".join(f"  lib/few.cpp {entry}\n" for entry in entries))
            done = subprocess.run([*command, "--objects", "libfew.so", *how], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

        status, said = after(known, "--report")
        self.assertEqual((status, "4 not seen: Why." in said), (0, True), said)
        self.assertEqual(after(known, "--check")[0], 0)
        status, said = after(known[1:], "--report")
        self.assertEqual((status, "1 not seen: not listed: other" in said), (1, True), said)
        seen = [*known, "few never true: x < 5"]
        status, said = after(seen, "--report")
        self.assertEqual((status, "a test sees it" in said), (1, True), said)
        self.assertEqual(after(seen, "--report", why="Timing: why.")[0], 0)
        status, said = after([*known, "few never true: x > 17"], "--check")
        self.assertEqual((status, "no such condition any more: x > 17" in said), (1, True), said)


with tempfile.TemporaryDirectory() as probe:
    if not can_profile(pathlib.Path(probe)):
        print("skipped: no clang++ with its profiling runtime, or no llvm-cov")
        sys.exit(77)
unittest.main()
