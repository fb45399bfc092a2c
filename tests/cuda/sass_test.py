"""sass.py in front of machine code that is made up: every planted fault must be found."""
import contextlib
import io
import pathlib
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

import sass
import sass_code

# Streams eight elements a round: a test for unaligned vectors, a hit that is seldom, one iteration of a loop inside.
PASS = """
        MOV R1, R2 ;
.L_x_0:
        LDG.E.128 R4, desc[UR8][R2.64] ;
        ISETP.NE.AND P0, PT, R0, RZ, PT ;
   @P0  BRA `(.L_x_1) ;
        LDG.E.128.CONSTANT R8, desc[UR8][R2.64+0x10] ;
        BRA `(.L_x_2) ;
.L_x_1:
        LDG.E R8, desc[UR8][R2.64+0x10] ;
        LDG.E R9, desc[UR8][R2.64+0x14] ;
        LDG.E R10, desc[UR8][R2.64+0x18] ;
        LDG.E R11, desc[UR8][R2.64+0x1c] ;
.L_x_2:
        FFMA R8, R8, R12, R13 ;
        BRA.DIV UR4, `(.L_x_6) ;
        VOTE.ANY R9, PT, P1 ;
        BRA P1, `(.L_x_4) ;
.L_x_3:
        IADD3 R2, R2, 0x20, RZ ;
   @!P2 BRA `(.L_x_3) ;
   @P3  BRA `(.L_x_0) ;
        EXIT ;
.L_x_4:
        STG.E desc[UR8][R14.64], R8 ;
        BRA `(.L_x_3) ;
.L_x_6:
        WARPSYNC.COLLECTIVE R16, `(.L_x_7) ;
.L_x_7:
        BRA `(.L_x_3) ;
.L_x_8:
        BRA `(.L_x_8);
"""
ROUND = 12  # of it without a hit


def listing(**kernels):
    text = ""
    for name, code in kernels.items():
        text += f'\t.section\t.text.{name},"ax",@progbits\n.text.{name}:\n'
        lines = textwrap.dedent(code).strip("\n").split("\n")
        for at, line in enumerate(lines):
            text += line + "\n" if line.startswith(".L_x_") else f"        /*{16 * at:04x}*/   {line}\n"
    return text


def before(line, planted):
    assert line in PASS
    return PASS.replace(line, planted + "\n" + line, 1)


class Rounds(unittest.TestCase):
    def rounds(self, code, **must):
        kernel = sass_code.parse(listing(f=code))["f"]
        way = sass_code.round_of(kernel, {kind.replace("_", "."): times for kind, times in must.items()})
        return way and len(way)

    def test_the_cheapest_way_that_does_what_it_must(self):
        self.assertEqual(self.rounds(PASS, load_128=2), ROUND)
        self.assertEqual(self.rounds(PASS, load_128=2, store=1), ROUND + 2)
        self.assertEqual(self.rounds(PASS, load_128=1, load_32=4), ROUND + 2)
        self.assertIsNone(self.rounds(PASS, load_128=3))
        self.assertIsNone(self.rounds(PASS, load_128=2, load_32=4))
        self.assertIsNone(self.rounds(PASS, load_128=2, WARPSYNC=1))

    def test_an_innermost_loop_comes_first(self):
        self.assertEqual(self.rounds(PASS, IADD3=1), 2)

    def test_a_loop_inside_is_gone_through_once(self):
        self.assertIsNone(self.rounds(PASS, load_128=2, IADD3=2))

    def test_nothing_lies_behind_a_call(self):
        call = before("        FFMA", "        CALL.REL.NOINC `(.L_x_8) ;")
        self.assertIsNone(self.rounds(call, load_128=2))

    def test_kinds(self):
        for opcode, wanted, met in [("LDG.E.128.CONSTANT", "load.128", True), ("LD.E.128", "load.128", True),
                                    ("LDG.E.64", "load.128", False), ("LDG.E.64", "load", True),
                                    ("LDG.E", "load.32", True), ("LDG.E.U16", "load.32", False),
                                    ("LDS.128", "load.128", False), ("STG.E.128", "store.128", True),
                                    ("ATOMS.POPC.INC.32", "ATOMS", True), ("ATOMG", "ATOM", False)]:
            self.assertEqual(sass_code.matches(opcode, wanted), met, f"{opcode} {wanted}")


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sass_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # An object is its listing.
        self.tool("cuobjdump", 'if grep -q section "$3"; then cp "$3" a.1.sm_90.cubin; fi')
        self.tool("nvdisasm", 'cat "$3"')

    def tool(self, name, script):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_on(self, code, limits, tools=True, compiler="13.0.88"):
        """Exit status and what it printed, of a kernel f in an object of a.cu."""
        (self.folder / "limits.txt").write_text("# nvcc 13.0\n# text\n\n" + limits)
        (self.folder / "a.cu.o").write_text(listing(f=code) if code else "")
        arguments = ["--compiler", compiler, str(self.folder / "limits.txt"), str(self.folder / "a.cu.o")]
        out = io.StringIO()
        real = sass.find_tool
        find = (lambda name, _: str(self.folder / name)) if tools else lambda name, _: real("no-such-program", [])
        with mock.patch.object(sass, "find_tool", find), contextlib.redirect_stdout(out):
            status = sass.main(arguments)
        return status, out.getvalue()

    def expect(self, status, text, *arguments, **options):
        found = self.run_on(*arguments, **options)
        self.assertEqual(found[0], status, found[1])
        self.assertIn(text, found[1])

    def test_a_limit_that_is_kept(self):
        self.expect(0, "12 instructions for 8, 1.5 each\n", PASS, "a.cu f 8 12 load.128=2")

    def test_one_instruction_more(self):
        planted = before("        FFMA", "        FADD R8, R8, R8 ;")
        self.expect(1, "FAIL: a.cu f (load.128=2): 13 instructions for 8, 1.6 each; the limit is 12", planted,
                    "a.cu f 8 12 load.128=2")

    def test_one_instruction_more_where_there_is_a_hit(self):
        self.expect(0, "12 instructions", before("        STG.E", "        FADD R8, R8, R8 ;"), "a.cu f 8 12 load.128=2")

    def test_one_instruction_less(self):
        less = "\n".join(line for line in PASS.split("\n") if "FFMA" not in line)
        self.expect(0, "please lower its limit from 12 to 11", less, "a.cu f 8 12 load.128=2")

    def test_a_load_that_has_become_narrow(self):
        self.expect(1, "FAIL: a.cu f (load.128=2): no loop", PASS.replace("LDG.E.128.CONSTANT", "LDG.E.64"),
                    "a.cu f 8 12 load.128=2")

    def test_local_memory_wherever_it_is(self):
        for opcode in ("LDL.64 R4, [R1]", "STL [R1], R4"):
            for place in ("        MOV R1", "        FFMA", "        STG.E"):
                self.expect(1, "FAIL: a.cu f: 1 accesses to local memory", before(place, f"        {opcode} ;"),
                            "a.cu f 8 99 load.128=2")

    def test_a_line_for_nothing(self):
        self.expect(1, "there is no such kernel", PASS, "a.cu g 8 12 load.128=2")
        self.expect(1, "there is no such kernel", PASS, "b.cu f 8 12 load.128=2")

    def test_no_tools(self):
        self.expect(77, "skipped: no nvdisasm", PASS, "a.cu f 8 1 load.128=2", tools=False)

    def test_another_compiler(self):
        self.expect(77, "skipped: the limits are those of nvcc 13.0, this is 13.1.2", PASS, "a.cu f 8 1 load.128=2",
                    compiler="13.1.2")
        self.expect(1, "local memory", before("        FFMA", "        LDL R4, [R1] ;"), "a.cu f 8 1 load.128=2",
                    compiler="13.1.2")

    def test_an_object_without_the_architecture(self):
        self.expect(77, "skipped: nothing is compiled for sm_90", "", "a.cu f 8 12 load.128=2")

    def test_names(self):
        for name, plain in [("void sparsecoll::cuda::(anonymous namespace)::f<float, sparsecoll::Bfloat, 16u>(int)",
                             "f<float,Bfloat,16u>"),
                            ("sparsecoll::cuda::(anonymous namespace)::g(unsigned long)", "g"),
                            ("void (anonymous namespace)::h<unsigned int>(int)", "h<uint32_t>")]:
            self.assertEqual(sass.plain_name(name), plain)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
