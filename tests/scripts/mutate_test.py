"""scripts/mutate on a library of ten lines.   usage: mutate_test.py SCRIPT"""
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

SCRIPT = sys.argv.pop(1)
sys.path.insert(0, str(pathlib.Path(SCRIPT).parent))

from mutation import trials  # noqa: E402
from mutation.sites import File  # noqa: E402

LIBRARY = """// Ten lines.
#include "lib/few.h"

constexpr int kFew = 2 + 3;

int few(int x) {
  if (x < kFew) return x * 2;
  int y = 1;
  y = y + x; y = y * 2;
  return y;
}
"""
HEADER = """#pragma once
int few(int x);
template <int kSize = 4>
inline int unused(int x) { return x - kSize; }
"""
# It sees the edge of the comparison, but not whether 4 is doubled or squared below it.
TEST = """#include "lib/few.h"
int main() { return few(2) == 4 && few(5) == 12 && few(7) == 16 ? 0 : 1; }
"""
CMAKE = """cmake_minimum_required(VERSION 3.22)
project(few LANGUAGES CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_CXX_STANDARD 20)
include_directories(${PROJECT_SOURCE_DIR})
add_library(few SHARED lib/few.cpp)
add_executable(few_test test.cpp)
target_link_libraries(few_test PRIVATE few)
enable_testing()
add_test(NAME few COMMAND few_test)
"""


def changes(text):
    return [(site.function, before, after) for site in File(text).sites for _, before, after in site.choices]


class Sites(unittest.TestCase):
    def test_constants_of_the_compiler_are_left_alone(self):
        self.assertEqual(changes("constexpr int a = 1 + 2;\nenum { b = 3 };\ntemplate <int n = 4> struct C;\n"), [])
        self.assertEqual(changes("void f() { static_assert(1 < 2); g<5>(); switch (x) { case 6: h(); } }"), [])

    def test_lengths_of_arrays_are_left_alone(self):
        self.assertEqual(changes("void f() { double a[n + 1]; C<int> b[2]; }"), [])
        self.assertEqual(len(changes("int f() { a[n + 1] = c; return d[2]; }")), 3)

    def test_templates_are_no_comparisons(self):
        found = changes("int f(int a) { return static_cast<int>(a) < g<int, long>(a); }")
        self.assertEqual([after for _, _, after in found],
                         ["int f(int a) { return static_cast<int>(a) <= g<int, long>(a); }",
                          "int f(int a) { return static_cast<int>(a) >= g<int, long>(a); }"])

    def test_operands_end_where_an_operator_binds_less(self):
        file = File("bool f() {\n  return a + b * c < d && e;\n}\n")
        self.assertEqual({file.text[site.start:site.end] for site in file.sites},
                         {"a + b * c < d && e", "a + b * c < d", "a + b * c", "b * c"})
        file = File("void f() { a ? b += c ? d : e : g; }\n")
        self.assertEqual([file.text[site.start:site.end] for site in file.sites], ["b += c ? d : e"])

    def test_a_member_belongs_to_its_function(self):
        found = changes("class A {\n public:\n  A() : a_(b + c) {}\n  int f() { return [&] { return a - b; }(); }\n};\n"
                        "int A::g(int x) { return x * y; }\n")
        self.assertEqual([function for function, _, _ in found], ["A", "f", "g"])

    def test_only_neighbours_that_depend_on_each_other_change_places(self):
        self.assertEqual(changes("void f() {\n  a = b;\n  c = d;\n}\n"), [])
        self.assertEqual(changes("void f() {\n  std::vector<A> c = b;\n  d = c;\n}\n"), [])
        self.assertEqual(changes("void f() {\n  a = b;\n  c = a;\n}\n"), [("f", "a = b; c = a;", "c = a; a = b;")])


class Planned:
    """A test that reaches and notices what it is told to, or two mutants together."""

    def __init__(self, name, seconds, reaches, notices=(), pair=None):
        self.name, self.takes, self.reaches, self.notices, self.pair = name, seconds, reaches, notices, pair
        self.asked = []

    def run(self, limit, _, SPARSECOLL_REACHED=None, SPARSECOLL_MUTANT=""):
        if SPARSECOLL_REACHED and self.takes <= limit:
            with open(SPARSECOLL_REACHED, "r+b") as file:
                for number in self.reaches:
                    file.seek(number)
                    file.write(b"\1")
        mutants = set(map(int, filter(None, SPARSECOLL_MUTANT.split(","))))
        if mutants:
            self.asked.append(mutants)
        noticed = bool(mutants & set(self.notices)) or bool(self.pair and self.pair <= mutants)
        return (int(noticed), self.takes) if self.takes <= limit else (None, limit)


class Trials(unittest.TestCase):
    TOLD = {number: {"file": "f", "line": number // 2, "function": "g", "before": "", "after": str(number)}
            for number in range(10)}
    SURVIVED = ("survived", None, "all 2 tests pass")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mutate_test_")
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)
        self.short = Planned("short", 1, set(range(9)), {0})
        self.long = Planned("long", 100, set(range(9)), {3, 6})

    def run_all(self, minutes=float("inf")):
        options = types.SimpleNamespace(jobs=1, nice=0, minutes=minutes)
        tree = types.SimpleNamespace(out=self.out, count=10, options=options, tests=lambda: [self.long, self.short])
        results = trials.run(tree, list(range(10)), self.TOLD, 1, lambda _: None)
        return {entry["number"]: (entry["result"], entry.get("by"), entry["how"]) for entry in results}

    def check_results(self, results):
        self.assertEqual(results.pop(0), ("killed", "short", "failure"))
        self.assertEqual(results.pop(3), ("killed", "long", "failure"))
        self.assertEqual(results.pop(6), ("killed", "long", "failure"))
        self.assertEqual(results.pop(9), ("survived", None, "no test reaches it"))
        self.assertEqual(set(results.values()), {self.SURVIVED})

    def test_long_tests_meet_together_what_short_ones_left(self):
        self.check_results(self.run_all())
        self.assertTrue(all(len(mutants) == 1 for mutants in self.short.asked))
        self.assertIn({1, 2, 4, 6, 8}, [mutants - {9} for mutants in self.long.asked])
        self.assertFalse(any({2, 3} <= mutants or 0 in mutants for mutants in self.long.asked))

    def test_two_that_are_noticed_only_together_survive(self):
        self.long.pair = {1, 8}
        self.check_results(self.run_all())

    def test_what_an_earlier_call_has_asked_is_not_asked_again(self):
        self.assertEqual({result for result, _, _ in self.run_all(minutes=0).values()}, {"open"})
        self.assertEqual(self.short.asked + self.long.asked, [])
        self.check_results(self.run_all())
        asked = len(self.short.asked + self.long.asked)
        self.check_results(self.run_all())
        self.assertEqual(len(self.short.asked + self.long.asked), asked)

    def test_a_test_that_fails_without_mutants_notices_none(self):
        self.long.notices = set(range(10))
        failing = self.long.run
        self.long.run = lambda limit, nice, **told: (1 if limit > 100 else None, failing(limit, nice, **told)[1])
        results = self.run_all()
        self.assertEqual(results.pop(0)[:2], ("killed", "short"))
        self.assertEqual({result for result, _, _ in results.values()}, {"survived"})


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mutate_test_")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "lib").mkdir()
        for name, text in (("lib/few.cpp", LIBRARY), ("lib/few.h", HEADER), ("test.cpp", TEST),
                           ("CMakeLists.txt", CMAKE)):
            (self.root / name).write_text(text)

    def mutate(self, *options):
        command = [sys.executable, SCRIPT, "--root", str(self.root), "--folders", "lib", "--targets", "few_test",
                   "--libraries", "libfew.so", "--equivalents", str(self.root / "list.txt"), *options]
        done = subprocess.run(command + ["--cmake"], capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        return done

    def results(self, seed):
        lines = (self.root / "build" / "mutants" / f"results-{seed}.jsonl").read_text().splitlines()
        return {entry["after"]: entry for entry in map(json.loads, lines)}

    def test_kills_and_survivors(self):
        self.mutate("--seed", "1")
        results = self.results(1)
        self.assertTrue(all("kFew =" not in after and "kSize" not in after for after in results), results)
        killed = {after for after, entry in results.items() if entry["result"] == "killed"}
        self.assertEqual(set(results) - killed, {"if (x < kFew) return x + 2;"} & set(results))
        self.assertEqual(killed, {
            "if (x <= kFew) return x * 2;", "if (x >= kFew) return x * 2;", "if (x < kFew) return x / 2;",
            "if (x < kFew) return x * 3;", "int y = 2;", "y = y - x; y = y * 2;", "y = y + x; y = y / 2;",
            "y = y + x; y = y * 3;", "y = y * 2; y = y + x;"})

        # The same seed does nothing again; what is listed as equivalent is not drawn; an entry must have its mutant.
        self.assertNotRegex(self.mutate("--seed", "1").stdout, r"(?m)^mutate: \d+/\d+ (killed|survived)")
        (self.root / "list.txt").write_text("# a list\n\nlib/few.cpp few\n  - int y = 1;\n  + int y = 2;\n    a test\n")
        self.mutate("--seed", "2")
        self.assertEqual(len(self.results(2)), len(results) - 1)
        self.assertEqual(self.mutate("--check").returncode, 0)

        # Two statements that cannot change places, as others need what one of them declares, are left as they are.
        text = "#define MAKE(...) __VA_ARGS__\nint few(int x) {\n  x += 4;\n  MAKE(int y = x);\n  return y;\n}\n"
        (self.root / "lib/few.cpp").write_text(text)
        self.mutate("--seed", "3")
        self.assertEqual(set(self.results(3)), {"x -= 4;", "x += 5;"})
        (self.root / "lib/few.cpp").write_text(LIBRARY.replace("int y = 1;", "int y = 0;"))
        gone = self.mutate("--check")
        self.assertEqual(gone.returncode, 1)
        self.assertIn("no such mutant", gone.stdout)


unittest.main()
