# SPDX-License-Identifier: Apache-2.0
"""NVML's generator refuses what nobody decided, and its committed page is what it gives."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "codegen"))
sys.dont_write_bytecode = True

import nvml  # noqa: E402
import parse_headers  # noqa: E402

INCLUDE = Path(os.environ["FARCALL_NVML_INCLUDE"])
GENERATED = Path(os.environ["FARCALL_GENERATED_DIR"])

TINY_HEADER = """
typedef enum nvmlReturn_enum { NVML_SUCCESS = 0 } nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlUnit_st *nvmlUnit_t;
typedef struct { unsigned int version; unsigned int value; } nvmlSaid_t;
typedef struct nvmlPlain_st { unsigned int value; } nvmlPlain_t;
typedef struct { unsigned int count; nvmlPlain_t *list; } nvmlList_t;
extern "C" {
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlName(nvmlDevice_t device, char *name, unsigned int length);
nvmlReturn_t nvmlSaid(nvmlDevice_t device, nvmlSaid_t *said);
nvmlReturn_t nvmlPlain(nvmlDevice_t device, int kind, nvmlPlain_t *plain);
nvmlReturn_t nvmlList(nvmlDevice_t device, nvmlList_t *list);
nvmlReturn_t nvmlUnit(nvmlUnit_t *unit);
nvmlReturn_t nvmlBlob(void *blob);
}
"""
REST = "nvmlInit_v2 nvmlName nvmlSaid nvmlPlain nvmlList nvmlUnit nvmlBlob"


class Decisions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "nvml.h").write_text(TINY_HEADER)
            cls.model = parse_headers.parse(
                Path(folder), parse_headers._find_clang(), parse_headers.NVML
            )

    def spec(self, name, row, klass="fixed", rest=REST):
        group = {"reason": "test", "class": klass, "calls": {name: row}}
        others = " ".join(other for other in rest.split() if other != name)
        return nvml.NvmlSpec(self.model, {"groups": [group], "unsupported": others})

    def kinds(self, name, row):
        return [plan.kind for plan in self.spec(name, row).calls[name].plans]

    def refuses(self, message, name, row, **more):
        with self.assertRaisesRegex(nvml.NvmlError, message):
            self.spec(name, row, **more)

    def test_types_settle_most_parameters(self):
        self.assertEqual(self.kinds("nvmlPlain", {}), ["device", "in", "out"])
        self.assertEqual(self.kinds("nvmlSaid", {}), ["device", "versioned"])
        self.assertEqual(
            self.kinds("nvmlName", {"args": {"name": "text(length)"}}), ["device", "text", "length"]
        )

    def test_pointers_nobody_classified(self):
        self.refuses("nvmlName.char . name.: nobody classified this pointer", "nvmlName", {})
        self.refuses("nvmlBlob.void . blob.: nobody classified this pointer", "nvmlBlob", {})

    def test_what_cannot_travel(self):
        self.refuses("nvmlList_t.list is a pointer, which means nothing elsewhere", "nvmlList", {})
        self.refuses("a handle of a kind that does not travel", "nvmlUnit", {})

    def test_words_nobody_knows(self):
        self.refuses("nvmlPlain: unknown key 'sead', one of args", "nvmlPlain", {"sead": True})
        self.refuses("class 'often', one of local, fixed", "nvmlPlain", {}, klass="often")
        self.refuses(
            "nvmlPlain: no parameter 'plan'", "nvmlPlain", {"args": {"plan": "items(kind)"}}
        )
        self.refuses(
            "role 'texts', one of text, items", "nvmlName", {"args": {"name": "texts(length)"}}
        )
        self.refuses("nvmlGone: the header declares no such function", "nvmlGone", {})
        self.refuses("no entry for nvmlSaid", "nvmlPlain", {}, rest=REST.replace("nvmlSaid ", ""))


class Committed(unittest.TestCase):
    def test_the_coverage_page_is_what_the_spec_gives(self):
        inputs = nvml.load(INCLUDE, GENERATED / "nvml_model.json")
        self.assertEqual(nvml.COVERAGE.read_text(), nvml.coverage(inputs))


if __name__ == "__main__":
    unittest.main()
