#!/usr/bin/env python3
"""The committed declarations are those that the header gives, and have the C compiler's layout.

usage: abi_test.py ROOT C_COMPILER
"""
import ctypes
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, COMPILER = pathlib.Path(sys.argv[1]), sys.argv[2]
SCRIPT = [sys.executable, str(ROOT / "scripts/python-abi")]

import sparsecoll
from sparsecoll import Info, Stats, _abi, _library


class Abi(unittest.TestCase):
    def test_the_committed_file_is_fresh(self):
        found = subprocess.run(SCRIPT + ["--check"], capture_output=True, text=True, check=False)
        self.assertEqual((found.returncode, found.stdout), (0, ""))

    def test_layout_is_the_compilers(self):
        program = subprocess.run(SCRIPT + ["--layout"], capture_output=True, text=True, check=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            source, binary = pathlib.Path(folder, "layout.c"), pathlib.Path(folder, "layout")
            source.write_text(program)
            subprocess.run([COMPILER, "-I", str(ROOT / "include"), str(source), "-o", str(binary)], check=True)
            lines = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout.splitlines()
        seen = set()
        for line in lines:
            name, *rest = line.split()
            kind = getattr(_abi, name)
            seen.add(kind)
            if len(rest) == 1:
                self.assertEqual(ctypes.sizeof(kind), int(rest[0]), name)
                continue
            field, offset, size = rest
            descriptor = getattr(kind, field)
            self.assertEqual((descriptor.offset, descriptor.size), (int(offset), int(size)), f"{name}.{field}")
        self.assertEqual(seen, set(_abi.STRUCTS))
        self.assertEqual(len([line for line in lines if len(line.split()) == 4]),
                         sum(len(kind._fields_) for kind in _abi.STRUCTS))

    def test_no_function_struct_or_enumerator_of_the_header_is_missing(self):
        exported = (ROOT / "abi/sparsecoll.syms").read_text().split()
        self.assertEqual(sorted(_abi.FUNCTIONS), sorted(exported))
        header = (ROOT / "include/sparsecoll/sparsecoll.h").read_text()
        header = re.sub(r"/\*.*?\*/", " ", header, flags=re.DOTALL)
        structs = re.findall(r"^\} (sparsecoll\w+_t);", header, re.MULTILINE)
        enums = [name for name in structs if re.search(r"MaxEnum|sparsecollLogLevel_t", name)]
        self.assertLessEqual({kind.__name__ for kind in _abi.STRUCTS} | set(enums), set(structs))
        for name in re.findall(r"^\s+(sparsecoll\w+) = ", header, re.MULTILINE):
            self.assertTrue(hasattr(_abi, name), name)

    def test_dataclasses_have_every_counter(self):
        for kind, struct in ((Stats, _abi.sparsecollStats_t), (Info, _abi.sparsecollReducerInfo_t)):
            fields = {re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name) for name, *_ in struct._fields_}
            fields -= {"struct_size", "magic", "header_version", "reserved0"}
            self.assertEqual({field.name for field in dataclasses.fields(kind)}, fields)

    def test_the_version_is_the_headers(self):
        header = (ROOT / "include/sparsecoll/sparsecoll.h").read_text()
        expression = re.search(r"^regex = '(.*)'$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
        parts = re.search(expression, header).groupdict()
        wheel = f"{parts['major']}.{parts['minor']}.{parts['patch']}"
        library = json.loads(sparsecoll.build_info())["version"]
        self.assertEqual({wheel, library, sparsecoll.__version__}, {sparsecoll.__version__})

    def test_another_version_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            source, binary = pathlib.Path(folder, "other.c"), pathlib.Path(folder, "libother.so")
            source.write_text("int sparsecollGetVersion(void) { return 203; }\n")
            subprocess.run([COMPILER, "-shared", "-fPIC", str(source), "-o", str(binary)], check=True)
            with self.assertRaisesRegex(ImportError, r"is version 0\.2\.3; this package needs "
                                        + re.escape(sparsecoll.__version__)):
                _library.load(str(binary))
        with self.assertRaisesRegex(ImportError, "cannot load /nowhere.so.*SPARSECOLL_LIBRARY"):
            _library.load("/nowhere.so")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
