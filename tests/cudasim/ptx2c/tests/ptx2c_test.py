#!/usr/bin/env python3
"""ptx2c_test.py -- what the translator says about PTX it cannot translate, and names of lines.

SPDX-License-Identifier: MIT
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import emitter
import ptx_parser

MODULE = """.version 9.0
.target sm_90a
.address_size 64
.file 1 "kernels/k.cu"
.file 2 "/usr/local/cuda/targets/x86_64-linux/include/cuda_bf16.hpp"
.file 3 "kernels/cuda/ptx.cuh"
.visible .entry kernel(.param .u64 pointer, .param .align 64 .b8 map[128])
{{
.reg .pred %p<4>;
.reg .b32 %r<9>;
.reg .f32 %f<9>;
.reg .b64 %rd<9>;
.loc 1 17 3
{}
ret;
}}
"""


def translate(body, module=MODULE):
    return emitter.translate(ptx_parser.parse(module.format(body)), "k.cpp", "k.ptx")


class Errors(unittest.TestCase):
    def fails(self, body, *words):
        with self.assertRaises(ptx_parser.PtxError) as caught:
            translate(body)
        for word in ("kernels/k.cu:17",) + words:
            self.assertIn(word, str(caught.exception))

    def test_an_unknown_opcode_names_the_line(self):
        self.fails("frobnicate.b32 %r1, %r2;", "frobnicate.b32")

    def test_an_unknown_modifier_is_no_translation(self):
        self.fails("add.rq.f32 %f1, %f2, %f3;", "add.rq.f32")
        self.fails("ld.global.sparkling.u32 %r1, [%rd1];", "sparkling")
        self.fails("cvt.rn.f32.e2m1x2 %f1, %r1;", "cvt.rn.f32.e2m1x2")

    def test_a_type_that_the_opcode_does_not_have(self):
        self.fails("mul24.lo.u64 %rd1, %rd2, %rd3;", "mul24.lo.u64")

    def test_the_wrong_number_of_operands(self):
        self.fails("add.u32 %r1, %r2;", "2 operands")

    def test_a_jump_to_nowhere(self):
        self.fails("bra NOWHERE;", "NOWHERE")

    def test_an_unknown_name(self):
        self.fails("mov.u64 %rd1, nobody;", "nobody")

    def test_a_call_out_of_the_file(self):
        self.fails("call.uni elsewhere, ();", "elsewhere")

    def test_a_register_of_the_wrong_size(self):
        self.fails("add.f32 %f1, %rd1, %f2;", "64-bit register")

    def test_a_predicate_as_a_number(self):
        self.fails("add.u32 %r1, %p1, %r2;", "predicates")

    def test_the_wrong_number_of_accumulators(self):
        self.fails("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%f1, %f2}, %rd1, %rd2, "
                   "%p1, 1, 1, 0, 0;", "2 accumulators", "8 expected")

    def test_the_wrong_number_of_coordinates(self):
        self.fails("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1}], [%r2];",
                   "1 coordinates")

    def test_a_text_that_is_no_ptx(self):
        with self.assertRaises(ptx_parser.PtxError):
            ptx_parser.parse("hello")
        with self.assertRaises(ptx_parser.PtxError):
            ptx_parser.parse(MODULE[:MODULE.index("ret;")].format("add.u32 %r1, %r2, %r3;"))


class Lines(unittest.TestCase):
    def line_of(self, locs):
        text = translate(locs + "\nadd.f32 %f1, %f2, %f3;\nst.global.f32 [%rd1], %f1;")
        lines = [x.split() for x in text.split("\n") if x.startswith("#line")]
        file = [x[2] for x in lines if len(x) > 2][-1]
        return f"#line {lines[-1][1]} {file}"

    def test_the_place_of_an_instruction(self):
        self.assertEqual(self.line_of(".loc 1 21 9"), '#line 21 "kernels/k.cu"')

    def test_the_caller_is_named_for_headers_of_the_toolkit(self):
        self.assertEqual(self.line_of(".loc 1 30 2\n.loc 2 99 1, function_name $L, inlined_at 1 30 2"),
                         '#line 30 "kernels/k.cu"')

    def test_the_caller_is_named_for_wrappers_of_instructions(self):
        locs = ".loc 3 5 1, function_name $L, inlined_at 1 44 2"
        self.assertEqual(self.line_of(locs), '#line 44 "kernels/k.cu"')

    def test_several_levels_up(self):
        locs = ".loc 3 5 1, function_name $L, inlined_at 1 44 2\n" \
               ".loc 2 7 1, function_name $L, inlined_at 3 5 1"
        self.assertEqual(self.line_of(locs), '#line 44 "kernels/k.cu"')

    def test_line_0_changes_nothing(self):
        self.assertEqual(self.line_of(".loc 1 21 9\n.loc 1 0 0"), '#line 21 "kernels/k.cu"')


class Text(unittest.TestCase):
    def test_a_register_that_is_never_read_is_not_declared(self):
        text = translate("add.u32 %r1, %r2, %r3;")
        self.assertNotIn("r1 = 0", text)
        self.assertIn("r2 = 0", text)

    def test_only_accumulators_and_their_copies_are_looked_at(self):
        text = translate(
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, "
            "%p1, 1, 1, 0, 0;\nmov.f32 %f5, %f1;\nadd.f32 %f6, %f5, %f2;\n"
            "add.f32 %f7, %f6, %f6;\nst.global.f32 [%rd1], %f7;")
        self.assertIn("wgmma_use(f5)) + ptx::as<float>(wgmma_use(f2))", text)
        self.assertIn("f5 = wgmma_result(f1);", text)
        self.assertNotIn("wgmma_use(f6)", text)

    def test_parameters_are_laid_out_as_the_host_passes_them(self):
        text = translate("ld.param.u64 %rd1, [pointer];\nst.global.u64 [%rd1], %rd1;")
        self.assertIn("{{0, 8}, {64, 128}}", text)

    def test_strings_and_comments(self):
        text = MODULE.replace("// ", "").replace(".version", "/* a // b */ .version")
        self.assertIn("kernel0_kernel", translate("// nothing", text))


if __name__ == "__main__":
    unittest.main()
