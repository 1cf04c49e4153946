# SPDX-License-Identifier: Apache-2.0
"""The generator refuses what nobody decided, says what to do, and gives what it gave before."""

import copy
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "codegen"))
sys.dont_write_bytecode = True

import generate  # noqa: E402
import ids  # noqa: E402
import outputs  # noqa: E402
import parse_headers  # noqa: E402
import procs  # noqa: E402
from plans import SpecError  # noqa: E402
from spec import Spec  # noqa: E402
from structs import record_codecs  # noqa: E402
from views import wrap  # noqa: E402

INCLUDE = Path(os.environ["FARCALL_CUDA_INCLUDE"])
GENERATED = Path(os.environ["FARCALL_GENERATED_DIR"])

TINY_HEADER = """
typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct CUstream_st *CUstream;
typedef enum Kind_enum { KIND_A = 1 } Kind;
typedef union Choice_union { int number; float real; } Choice;
typedef struct Inner_st { void *where; int count[3]; } Inner;
extern "C" {
CUresult cuInit(unsigned int Flags);
CUresult cuBlob(void *blob);
CUresult cuName(const char *name, Kind kind, int *value);
CUresult cuFill(CUdeviceptr address, unsigned char value, CUstream stream);
CUresult cuMake(CUstream *stream);
CUresult cuChoose(const Choice *choice);
CUresult cuRecord(const Inner *inner);
CUresult cuName_ptsz(const char *name, Kind kind, int *value);
}
"""
TINY_SPEC = {
    "handles": {"CUstream_st": "kStream"},
    "groups": [
        {
            "reason": "test",
            "effect": "query",
            "calls": {
                "cuInit": {"class": "local", "needs": "nothing"},
                "cuName": {"class": "sync"},
            },
        }
    ],
    "unsupported": ["cuBlob", "cuFill", "cuMake", "cuChoose", "cuRecord"],
}


def tiny_model():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cuda.h").write_text(TINY_HEADER)
        return parse_headers.parse(Path(folder), parse_headers._find_clang())


class SpecFailures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tiny_model()

    def load(self, call=None, row=None, unsupported=None):
        data = copy.deepcopy(TINY_SPEC)
        if call:
            data["groups"][0]["calls"][call] = row
            data["unsupported"] = [n for n in data["unsupported"] if n != call]
        if unsupported is not None:
            data["unsupported"] = unsupported
        return Spec(self.model, data, "tiny.yaml")

    def refuses(self, message, *arguments, **named):
        with self.assertRaisesRegex(SpecError, message):
            spec = self.load(*arguments, **named)
            record_codecs(spec)

    def test_takes_a_good_spec_and_derives_the_variant(self):
        spec = self.load()
        self.assertEqual(spec.calls["cuName_ptsz"].base, "cuName")
        self.assertEqual(
            [plan.kind for plan in spec.calls["cuName"].plans], ["string", "value", "out"]
        )
        self.assertFalse(spec.calls["cuBlob"].supported)

    def test_unclassified_pointer_names_call_and_parameter(self):
        self.refuses(
            r"tiny.yaml: cuBlob\(void \* ?blob\): nobody classified this pointer.*'blob'",
            "cuBlob",
            {"class": "sync"},
        )

    def test_unknown_role_lists_the_known_ones(self):
        self.refuses(
            r"cuName\(int \* ?value\): unknown role 'outt', one of in, out,",
            "cuName",
            {"class": "sync", "args": {"value": "outt"}},
        )

    def test_open_parenthesis(self):
        self.refuses(
            "a parenthesis is not closed",
            "cuFill",
            {"class": "post", "args": {"address": "dev(Product(1, 2)"}},
        )

    def test_address_without_extent(self):
        self.refuses(
            r"cuFill\(CUdeviceptr address\): a device address needs its extent",
            "cuFill",
            {"class": "post"},
        )

    def test_handle_pointer_without_role(self):
        self.refuses(
            r"cuMake\(CUstream \* ?stream\): nobody classified this pointer: new",
            "cuMake",
            {"class": "post"},
        )

    def test_array_of_records(self):
        row = {"class": "post", "args": {"inner": "in(2)"}}
        self.refuses("cuRecord.*an array of records has no wire form", "cuRecord", row)

    def test_union_without_selector(self):
        self.refuses(r"cuChoose.*a union needs select", "cuChoose", {"class": "post"})

    def test_union_without_cases(self):
        self.refuses(
            "union Choice_union: which member counts",
            "cuChoose",
            {"class": "post", "args": {"choice": "in select(x)"}},
        )

    def test_record_with_an_unclassified_field(self):
        self.refuses(
            r"Inner_st.where \(void \*\): nobody classified this field",
            "cuRecord",
            {"class": "post"},
        )

    def test_function_without_entry(self):
        self.refuses("no entry for cuBlob, cuFill", unsupported=["cuMake", "cuChoose", "cuRecord"])

    def test_supported_and_unsupported(self):
        self.refuses(
            "cuName is described twice, or is both supported and unsupported",
            unsupported=["cuBlob", "cuFill", "cuMake", "cuChoose", "cuRecord", "cuName"],
        )

    def test_name_the_headers_lack(self):
        self.refuses("cuGone: the headers declare no such function", "cuGone", {"class": "sync"})

    def test_unknown_key(self):
        self.refuses("cuName: unknown key 'clas', one of alike, args,", "cuName", {"clas": "sync"})

    def test_unknown_class(self):
        self.refuses("cuName: class 'async', one of local, query", "cuName", {"class": "async"})

    def test_record_without_an_effect(self):
        data = copy.deepcopy(TINY_SPEC)
        del data["groups"][0]["effect"]
        with self.assertRaisesRegex(SpecError, "cuName: effect '', one of work, .*state it"):
            Spec(self.model, data, "tiny.yaml")

    def test_unknown_effect(self):
        self.refuses(
            "cuFill: effect 'magic', one of work", "cuFill", {"class": "post", "effect": "magic"}
        )

    def test_effect_of_a_call_without_a_record(self):
        self.refuses(
            "cuBlob: effect, but it makes no record", "cuBlob", {"class": "local", "effect": "work"}
        )

    def test_unknown_capture(self):
        self.refuses(
            "cuFill: capture 'maybe', one of allowed",
            "cuFill",
            {"class": "post", "capture": "maybe"},
        )

    def test_a_query_needs_no_effect(self):
        data = copy.deepcopy(TINY_SPEC)
        del data["groups"][0]["effect"]
        data["groups"][0]["calls"]["cuName"]["class"] = "query"
        self.assertEqual(Spec(self.model, data, "tiny.yaml").calls["cuName"].effect, "query")

    def test_unknown_parameter(self):
        self.refuses(
            "cuName: no parameter 'valeu'", "cuName", {"class": "sync", "args": {"valeu": "out"}}
        )

    def test_as_with_other_parameters(self):
        self.refuses(
            "cuBlob: its parameters differ from those of cuName", "cuBlob", {"as": "cuName"}
        )

    def test_as_of_an_unsupported_call(self):
        self.refuses("cuBlob: served as cuFill, which is not supported", "cuBlob", {"as": "cuFill"})

    def test_generated_client_without_generated_server(self):
        self.refuses(
            "a generated client needs a generated server",
            "cuName",
            {"class": "sync", "server": "hand"},
        )


class Ids(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "x.ids"
        ids.append_ids(self.path, ["cuA", "cuB"])

    def edit(self, old, new):
        self.path.write_text(self.path.read_text().replace(old, new))

    def refuses(self, message):
        with self.assertRaisesRegex(ids.IdError, message):
            ids.load_ids(self.path)

    def test_new_names_are_appended(self):
        before = self.path.read_text()
        self.assertEqual(ids.append_ids(self.path, ["cuB", "cuC"]), ["cuC"])
        self.assertTrue(self.path.read_text().startswith(before))
        self.assertEqual(ids.load_ids(self.path), {"cuA": 1, "cuB": 2, "cuC": 3})

    def test_a_changed_line_is_refused(self):
        self.edit("1 cuA", "1 cuZ")
        self.refuses(r"x.ids:\d+: an existing id line changed")

    def test_a_removed_line_is_refused(self):
        self.edit("1 cuA\n", "")
        self.refuses("expected '1 <name>'")

    def test_a_line_by_hand_is_refused(self):
        self.path.write_text(self.path.read_text() + "3 cuC\n")
        self.refuses("1 ids after the last seal")

    def test_a_name_twice_is_refused(self):
        self.path.write_text(self.path.read_text() + "3 cuA\n")
        self.refuses("cuA already has id 1")


class RealHeaders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = parse_headers.load_model(INCLUDE, GENERATED / "model.json")
        cls.inputs = generate._load(cls.model)

    def test_goldens_and_coverage_page_are_current(self):
        self.assertEqual(generate._committed(self.inputs, update=False), 0)

    def test_output_is_what_the_build_holds(self):
        for path, render in outputs.OUTPUTS.items():
            with self.subTest(path):
                self.assertEqual((GENERATED / path).read_text(), render(self.inputs))

    def test_each_request_of_a_runtime_resolves(self):
        rows = {}
        for row in self.inputs.procs:
            rows.setdefault((row.name, row.flags), []).append(row.version)
        for line in (Path(__file__).parent / "cudart_requests.txt").read_text().splitlines():
            if line.startswith("#"):
                continue
            name, version, flags = line.split()
            versions = rows.get((name, int(flags)), [])
            self.assertTrue(any(known <= int(version) for known in versions), line)

    def test_versions_of_a_name_lead_to_different_symbols(self):
        symbols = {(row.name, row.version, row.flags): row.symbol for row in self.inputs.procs}
        self.assertEqual(symbols["cuCtxCreate", 12050, 0], "cuCtxCreate_v4")
        self.assertEqual(symbols["cuMemcpyHtoD", 3020, 0], "cuMemcpyHtoD_v2")
        self.assertEqual(symbols["cuMemcpyHtoD", 7000, 2], "cuMemcpyHtoD_v2_ptds")
        self.assertEqual(
            symbols["cuStreamGetCaptureInfo", 12030, 2], "cuStreamGetCaptureInfo_v3_ptsz"
        )

    def test_a_version_nothing_matches_is_refused(self):
        model = copy.copy(self.model)
        model.prototypes = model.prototypes + [
            parse_headers.Prototype("cuInit", 99000, "", "cudaError_enum (float)")
        ]
        with self.assertRaisesRegex(
            procs.ProcError, "cuInit_v99000: none or several of .cuInit. have its signature"
        ):
            procs.proc_rows(model, {})

    def test_headers_without_cuda_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(parse_headers.ParseError, "declare no cuInit"):
                parse_headers.parse(Path(folder), parse_headers._find_clang())

    def test_a_new_name_without_an_id_is_refused(self):
        model = copy.copy(self.model)
        model.functions = dict(model.functions, cuNew=self.model.functions["cuInit"])
        with self.assertRaisesRegex(
            generate.GenerateError, "no id for cuNew: run codegen/generate.py --add-ids"
        ):
            generate._load(model)


class Layout(unittest.TestCase):
    def test_long_calls_break_inside_the_line(self):
        text = wrap(
            "  call.result = call.api.cuSomething(",
            [f"argument_number_{i}" for i in range(9)],
            ");",
        )
        self.assertTrue(all(len(line) <= 100 for line in text.splitlines()), text)
        self.assertEqual(
            " ".join(text.split()).replace("( ", "("),
            "call.result = call.api.cuSomething("
            + ", ".join(f"argument_number_{i}" for i in range(9))
            + ");",
        )


class Exports(unittest.TestCase):
    def test_the_api_and_nothing_else_leaves_a_library(self):
        listing = subprocess.run(
            ["nm", "-D", "--defined-only", os.environ["FARCALL_DEFAULTS_LIBRARY"]],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        exported = sorted(line.split()[2] for line in listing.splitlines())
        self.assertEqual(
            exported, (ROOT / "codegen" / "ids" / "cuda_exports.txt").read_text().split()
        )


if __name__ == "__main__":
    unittest.main()
