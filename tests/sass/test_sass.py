#!/usr/bin/env python3
"""test_sass.py -- scripts/sass_profile.py and scripts/check_sass on small made-up SASS.

The listings are written here, in the form in which NVIDIA's disassembler writes them; no tool and no
GPU is needed. The figures are counted by hand.

SPDX-License-Identifier: MIT
"""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("LATHE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
SCRIPTS = SOURCE / "scripts"
sys.path.insert(0, str(SCRIPTS))
import sass_profile  # noqa: E402
import sass_read  # noqa: E402

loader = importlib.machinery.SourceFileLoader("check_sass", str(SCRIPTS / "check_sass"))
check_sass = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_sass", loader))
loader.exec_module(check_sass)

MMA = "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24"
MMA_RS = "HGMMA.64x64x16.F32.BF16 R24, R4, gdesc[UR8], R24"
GEMM = ["S2R R0, SR_TID.X",
        ".L_loop:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2], R3", "@!P0 BRA `(.L_slow)",
        ".L_back:", MMA, MMA, MMA, MMA + ", gsb0",
        "WARPGROUP.DEPBAR.LE gsb0, 0x1", "MUFU.EX2 R5, R5", "FFMA R5, R5, R6, R7",
        "@P1 BRA `(.L_loop)",
        "WARPGROUP.DEPBAR.LE gsb0, 0x0", "STG.E [R2.64], R24", "EXIT",
        ".L_slow:", "NANOSLEEP 0x20", "BRA `(.L_back)"]
DRAINED = ["MOV R1, R2", ".L_loop:", MMA_RS, MMA_RS + ", gsb0", "WARPGROUP.DEPBAR.LE gsb0, 0x0",
           "LDL R4, [R1]", "@P1 BRA `(.L_loop)", "EXIT"]
PLAIN = ["IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]", "STL [R1], R2", "EXIT"]


def listing(arch, symbol, lines):
    out, address = [f"arch = {arch}", f"\t\tFunction : {symbol}"], 0
    for line in lines:
        if line.endswith(":"):
            out.append(line if line.startswith(".L_") else ".L_" + line[1:])
        else:
            out.append(f"        /*{address:04x}*/                   {line} ;")
            address += 16
    return "\n".join(out) + "\n"


def kernels(text):
    found = list(sass_read.read_text(text, "made up").values())
    names = sass_read.short_names({k.symbol for k in found})
    for k in found:
        k.name = names[k.symbol]
    return found


def figures(lines):
    return sass_profile.profile(kernels(listing("sm_90a", "f", lines))[0])


class Reading(unittest.TestCase):
    def test_two_architectures_stay_apart(self):
        found = kernels(listing("sm_80", "f", PLAIN) + listing("sm_90", "f", PLAIN + PLAIN))
        self.assertEqual([(k.arch, len(k.insns)) for k in found], [("sm_80", 3), ("sm_90", 6)])

    def test_names_are_those_of_the_source(self):
        for demangled, short in [
                ("void (anonymous namespace)::f<(int)3, true>(float*, int)", "f<3,true>"),
                ("void lathe::g<float, (lathe::Kind)1>(lathe::Args<int>)", "g<float,(Kind)1>"),
                ("h(Args)", "h"), ("void f<(int)-1>(void (*)(int))", "f<-1>")]:
            self.assertEqual(sass_read.short_name(demangled), short)

    def test_shapes_bytes_and_pipes_of_instructions(self):
        ss, rs = kernels(listing("sm_90a", "f", [MMA + ", gsb0", MMA_RS]))[0].insns
        self.assertEqual((ss.shape, ss.tensor, ss.bytes, ss.commits), ("n128k16SS", 64, 6144, True))
        self.assertEqual((rs.shape, rs.tensor, rs.bytes, rs.commits), ("n64k16RS", 32, 2048, False))
        lds, ldsm, shfl = kernels(listing("sm_90a", "f", [
            "LDS.128 R4, [R2]", "LDSM.16.M88.4 R4, [R2]", "SHFL.BFLY PT, R2, R3, 0x1, 0x1f"]))[0].insns
        self.assertEqual((lds.bytes, ldsm.bytes, shfl.bytes), (2048, 2048, 512))


class Profile(unittest.TestCase):
    def test_loop_is_found_without_the_slow_path(self):
        loop, = figures(GEMM)["loops"]
        self.assertEqual((loop["address"], loop["issue"], loop["tensor"]), (0x10, 10, 256))
        self.assertEqual(loop["shapes"], "4xn128k16SS")
        self.assertEqual((loop["commits"], loop["mma_per_commit"], loop["drains"]), (1, 4.0, 0))

    def test_cycles_of_each_pipe(self):
        loop, = figures(GEMM)["loops"]
        self.assertEqual(loop["bound"], {"tensor": 256, "issue": 10, "mufu": 8, "alu": 0, "fma": 1,
                                         "smem": 4 * 6144 // 128})
        self.assertEqual(loop["serial"], round(100 * 256 / (256 + 10), 1))

    def test_a_group_in_flight_covers_the_loop(self):
        self.assertEqual(figures(GEMM)["loops"][0]["covered"], 100)

    def test_a_drained_loop_is_covered_only_up_to_the_wait(self):
        p = figures(DRAINED)
        loop, = p["loops"]
        self.assertEqual((loop["drains"], loop["covered"], loop["mma_per_commit"]), (1, 40, 2.0))
        self.assertEqual((p["local"], p["local_in_loops"], p["local_loads"]), (1, 1, 1))

    def test_timeline_has_the_events_in_order(self):
        self.assertEqual(figures(GEMM)["loops"][0]["timeline"],
                         "mbar.wait | [flow 1] | MMA 4xn128k16SS | wait<=1 | "
                         "[mufu 1 ffma 1 flow 1]")

    def test_local_memory_outside_of_loops_is_not_in_one(self):
        p = figures(PLAIN)
        self.assertEqual((p["local"], p["local_in_loops"], p["loops"]), (1, 0, []))

    def test_of_two_loops_the_inner_one_counts(self):
        nested = ["MOV R1, R2", ".L_outer:", "MOV R3, R4", ".L_loop:", MMA, MMA, MMA,
                  MMA + ", gsb0", "@P1 BRA `(.L_loop)", "@P2 BRA `(.L_outer)", "EXIT"]
        loops = figures(nested)["loops"]
        self.assertEqual([loop["issue"] for loop in loops], [5])


class Limits(unittest.TestCase):
    def findings(self, limits, lines=GEMM, arch="sm_90a", log="", **facts):
        """What check_sass finds wrong with one kernel `f`."""
        with tempfile.TemporaryDirectory() as folder:
            path, text = Path(folder) / "limits", Path(folder) / "f.ptxas"
            path.write_text(limits)
            text.write_text(log)
            p = figures(lines)
            p.update({"arch": arch, "regs": 168, "stack": 0, "spill": 0, "static_smem": 0}, **facts)
            p["copies_ratio"] = check_sass.copies_ratio(p["loops"])
            return check_sass.read_log(text)[1] + check_sass.check([p], check_sass.Limits(path), False)

    def assertFinds(self, text, *args, **kw):
        found = self.findings(*args, **kw)
        self.assertEqual(len(found), 1, found)
        self.assertIn(text, found[0])

    def test_limits_that_hold_find_nothing(self):
        row = "kernel f\n wgmma\n issue_per_tc <= 0.04\n regs == 168\n copies_ratio <= 1.35\n"
        self.assertEqual(self.findings(row), [])
        self.assertEqual(self.findings("kernel g<*>\nkernel f*\n wgmma\n")[1:], [])

    def test_words_of_an_enum_stand_in_names(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "limits"
            path.write_text("enum Mask FULL CAUSAL\nkernel f<64, CAUSAL>\n")
            limits = check_sass.Limits(path)
        self.assertEqual(limits.name_of("f<64,(Mask)1>"), "f<64,CAUSAL>")
        self.assertEqual(limits.name_of("f<(Mask)2,(Other)0>"), "f<(Mask)2,(Other)0>")
        self.assertIsNotNone(limits.row_of("f<64,CAUSAL>"))

    def test_a_limit_that_is_passed_is_found(self):
        self.assertFinds("issue_per_tc is 0.039, not <= 0.03", "kernel f\n wgmma\n issue_per_tc <= 0.03\n")

    def test_a_kernel_without_a_row_and_a_row_without_a_kernel_are_found(self):
        found = self.findings("kernel g\n")
        self.assertEqual(len(found), 2)
        self.assertIn("no row of limits covers it", found[0])
        self.assertIn("there is no such kernel", found[1])

    def test_an_unknown_figure_anchor_or_word_is_found(self):
        self.assertFinds("no figure isue", "kernel f\n wgmma\n isue <= 3\n")
        self.assertFinds("no anchor FA4", "kernel f\n wgmma\n beside FA4\n")
        self.assertFinds("no figure speed", "anchor A speed=3\nkernel f\n wgmma\n")
        self.assertFinds("no comparison", "kernel f\n wgmma\n regs ~ 3\n")
        self.assertFinds("before the first kernel", "regs <= 3\nkernel f\n wgmma\n")
        self.assertFinds("a sentence", "kernel f\n wgmma\n worse serial tough\n")

    def test_wgmma_must_be_where_it_is_expected(self):
        self.assertFinds("4 wgmma instructions", "kernel f\n")
        found = self.findings("kernel f\n wgmma\n", lines=PLAIN)
        self.assertTrue(any("0 wgmma" in text for text in found), found)

    def test_serialised_wgmma_is_found(self):
        one = ["MOV R1, R2", ".L_loop:", MMA + ", gsb0", MMA + ", gsb0", "@P1 BRA `(.L_loop)", "EXIT"]
        self.assertFinds("1.0 wgmma a group", "kernel f\n wgmma\n", lines=one)

    def test_a_notice_of_ptxas_is_found(self):
        notice = "ptxas info : (C7514) Potential Performance Loss: wgmma.mma_async are serialized"
        self.assertFinds("C7514", "kernel f\n wgmma\n", log=notice)

    def test_spills_need_a_reason_and_are_few(self):
        self.assertFinds("8 bytes spilled", "kernel f\n wgmma\n", spill=8, stack=8)
        self.assertEqual(self.findings("kernel f\n wgmma\n spill 8 one value of the epilogue\n",
                                       spill=8, stack=8), [])
        self.assertFinds("at most 16", "kernel f\n wgmma\n spill 17 one value of the epilogue\n")

    def test_local_memory_in_a_loop_is_found_whatever_the_row_says(self):
        found = self.findings("kernel f\n wgmma\n spill 8 one value of the loop\n", lines=DRAINED)
        self.assertTrue(any("1 local loads and stores in loops" in text for text in found), found)

    def test_a_stack_needs_a_reason(self):
        self.assertFinds("a stack of 64 bytes", "kernel f\n wgmma\n", stack=64)
        self.assertEqual(self.findings("kernel f\n wgmma\n stack 64 an array with a runtime index\n",
                                       stack=64), [])

    def test_a_figure_that_is_worse_needs_its_reason_and_a_better_one_none(self):
        anchor = "anchor A issue_per_tc=0.03 serial=99 covered=50\nkernel f\n wgmma\n beside A\n"
        self.assertEqual(len(self.findings(anchor)), 2)
        reasons = " worse issue_per_tc it does more work\n worse serial it does more work\n"
        self.assertEqual(self.findings(anchor + reasons), [])
        self.assertFinds("covered is not worse", anchor + reasons + " worse covered it does more work\n")

    def test_spills_are_read_from_what_ptxas_said(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "a.ptxas"
            log.write_text("ptxas info : Compiling entry function 'f' for 'sm_90a'\n"
                           "ptxas info : Function properties for f\n"
                           "    24 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n")
            self.assertEqual(check_sass.read_log(log), ({("sm_90a", "f"): 12}, []))


class Commands(unittest.TestCase):
    def test_profile_of_a_listing(self):
        with tempfile.NamedTemporaryFile("w", suffix=".sass") as f:
            f.write(listing("sm_90a", "_Z1fi", GEMM))
            f.flush()
            run = subprocess.run([sys.executable, "-B", SCRIPTS / "sass_profile.py", "--timeline",
                                  f.name], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("loop at 0x10: 4xn128k16SS", run.stdout)

    def test_check_sass_skips_where_there_is_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([sys.executable, "-B", SCRIPTS / "check_sass", folder],
                                 capture_output=True, text=True)
        self.assertEqual(run.returncode, 77)
        self.assertIn("SKIP", run.stdout)


if __name__ == "__main__":
    unittest.main()
