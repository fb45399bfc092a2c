#!/usr/bin/env python3
"""What a file of the library takes from the standard library it includes, itself or by headers of this project.

Builds that precompile those headers (cmake/precompiled.cmake) would not see that one is missing.
usage: includes.py ROOT | --self-test
"""
import functools
import pathlib
import re
import sys
import tempfile

FOLDERS = ["core", "host", "cuda", "transports", "selectors", "collectives", "src"]
# Headers that are precompiled, and what is theirs alone.
NAMES = {
    "algorithm": "all_of any_of clamp copy_n count_if fill_n find_if is_sorted lower_bound max_element min_element "
                 "none_of nth_element partial_sort remove_if reverse sort stable_sort transform unique upper_bound",
    "array": "array",
    "atomic": "atomic atomic_flag atomic_ref atomic_thread_fence memory_order memory_order_acquire "
              "memory_order_relaxed memory_order_release memory_order_acq_rel memory_order_seq_cst",
    "chrono": "chrono",
    "cmath": "abs ceil cos exp exp2 fabs floor frexp isfinite isinf isnan ldexp log log1p log2 pow round sqrt",
    "condition_variable": "condition_variable condition_variable_any cv_status",
    "cstring": "memchr memcmp memcpy memmove memset strcmp strerror strlen strncmp",
    "deque": "deque",
    "functional": "function bind ref cref",
    "map": "map multimap",
    "memory": "make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "call_once lock_guard mutex once_flag recursive_mutex scoped_lock unique_lock",
    "optional": "nullopt optional",
    "random": "mt19937 mt19937_64 random_device uniform_int_distribution",
    "set": "multiset set",
    "span": "as_bytes as_writable_bytes span",
    "sstream": "istringstream ostringstream stringstream",
    "string": "string stoi stol stoul stoull to_string",
    "string_view": "string_view",
    "thread": "jthread thread this_thread",
    "unordered_map": "unordered_map",
    "vector": "vector",
}
HEADER_OF = {name: header for header, names in NAMES.items() for name in names.split()}
# Another standard header may bring what these names need.
ALSO = {"string": {"sstream"}, "cmath": {"cstdlib"}, "functional": set()}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
USE = re.compile(r"\bstd::(\w+)")


@functools.cache
def text(path):
    return path.read_text()


def closure(root, path, seen):
    """Names of the headers that path includes, through headers of this project."""
    found = set()
    for name in INCLUDE.findall(text(path)):
        found.add(name)
        for own in (root / name, root / "include" / name, path.parent / name):
            if own.is_file() and own not in seen:
                seen.add(own)
                found |= closure(root, own, seen)
    return found


def missing(root, path):
    """(line, name, header) of what path uses and includes nowhere."""
    included = closure(root, path, {path})
    code = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text(path))
    told = set()
    for use in USE.finditer(code):
        header = HEADER_OF.get(use[1])
        if header and header not in told and header not in included and not ALSO.get(header, set()) & included:
            told.add(header)
            yield code.count("\n", 0, use.start()) + 1, use[1], header


def check(root):
    failures = 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                for line, name, header in missing(root, path):
                    print(f"{path.relative_to(root)}:{line}: std::{name} needs <{header}>")
                    failures += 1
    return failures


def self_test():
    """The check sees what is missing, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in FOLDERS:
            (root / name).mkdir()
        (root / "core/own.h").write_text("#include <vector>\n")
        (root / "src/right.cpp").write_text(
            '#include "core/own.h"\n#include <mutex>\n// std::thread\nstd::vector<int> v; std::mutex m;'
            ' auto s = "std::map";\n')
        faults = check(root)
        assert faults == 0, faults
        (root / "src/wrong.cpp").write_text('#include "core/own.h"\n\nstd::mutex m;\nstd::optional<int> o;\n')
        assert [fault[:2] for fault in missing(root, root / "src/wrong.cpp")] == [(3, "mutex"), (4, "optional")]
        assert check(root) == 2
    print("passed")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        sys.exit(0)
    root = pathlib.Path(sys.argv[1]).resolve()
    failures = check(root)
    print(f"{failures} includes are missing" if failures else "passed")
    sys.exit(1 if failures else 0)
