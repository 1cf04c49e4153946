#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake/unity_groups.py: sources share a unit only if no private name of one occurs in another."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake/unity_groups.py"


class UnityGroups(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        (self.folder / "build").mkdir()

    def groups(self, **texts):
        """The sources of each unit; in none: those that are compiled alone."""
        lines = []
        for name, text in texts.items():
            path = self.folder / f"{name}.cc"
            path.write_text(text)
            lines.append(f"target\t{self.folder}\t{path}\n")
        (self.folder / "build/list").write_text("".join(lines))
        output = self.folder / "build/groups.cmake"
        subprocess.run(
            [sys.executable, SCRIPT, self.folder / "build/list", output, self.folder], check=True
        )
        return sorted(
            sorted(pathlib.Path(word).stem for word in line.split() if ".cc" in word)
            for line in output.read_text().splitlines()
            if "UNITY_GROUP" in line
        )

    def assert_together(self, a, b):
        self.assertEqual(self.groups(a=a, b=b), [["a", "b"]])

    def assert_apart(self, a, b):
        self.assertEqual(self.groups(a=a, b=b), [])
        self.assertEqual(self.groups(a=b, b=a), [])

    def test_sources_without_private_names_come_together(self):
        self.assert_together("int F() { return 1; }", "int G() { return 2; }")

    def test_a_function_of_another_source_comes_by_a_header(self):
        self.assert_apart("int F() { return 1; }", "int G() { return F(); }")
        (self.folder / "f.h").write_text("int F();\n")
        include = '#include "f.h"\n'
        self.assert_together(include + "int F() { return 1; }", include + "int G() { return F(); }")

    def test_what_a_header_declares_could_hide_an_outer_name(self):
        (self.folder / "dial.h").write_text("namespace a::b { int Dial(int number); }\n")
        includes = '#include "dial.h"\nnamespace a::b { int F() { return 1; } }'
        self.assert_apart(includes, "namespace a::b { int G() { return Dial(1.5); } }")
        self.assert_together(includes, "namespace a::c { int G() { return Dial(1.5); } }")

    def test_a_private_name_could_make_a_header_ambiguous(self):
        (self.folder / "watch.h").write_text("namespace a { struct Watch {}; Watch Take(); }\n")
        private = "namespace a { namespace { struct Watch {}; } }"
        self.assert_apart(private, '#include "watch.h"\nint G() { return 1; }')

    def test_a_private_overload_could_take_a_neighbours_call(self):
        private = "namespace {\nstd::string Quoted(const std::string& text) { return text; }\n}"
        self.assert_apart(private, 'std::string Say() { return Quoted("a"); }')
        self.assert_together(private, 'std::string Say() { return other::Quoted("a"); }')
        self.assert_together(private, "int Say() { return text.Quoted() + text->Quoted(); }")
        self.assert_together(private, 'const char* Say() { return "Quoted"; }  // Quoted')

    def test_every_kind_of_private_name_counts(self):
        for private in (
            "static int Count(int a) { return a; }",
            "namespace { constexpr int Count = 3; }",
            "constexpr int Count = 3;",
            "namespace a { namespace { struct Count { int b; }; } }",
            "namespace a { struct Count { int b; }; }",
            "namespace { enum { Other, Count }; }",
            "namespace { int b, Count; }",
            "namespace { int (*Count)(int); }",
            "#define Count 3",
            "using other::Count;",
            "using Count = int;",
            "namespace Count = other;",
            "typedef int Count;",
        ):
            with self.subTest(private):
                self.assert_apart(private, "namespace a { int F() { return sizeof(Count); } }")
                self.assert_together(private, "namespace a { int F() { return other::Count; } }")

    def test_what_a_function_or_a_class_holds_is_not_private_to_the_file(self):
        holds = "void F() { int count = 1; auto g = [](int count) { return count; }; }"
        self.assert_together(holds, "int G() { return count; }")
        self.assert_together("struct A::B { int count; };", "int G() { return count; }")

    def test_the_same_using_declaration_is_no_difference(self):
        json = "using Json = nlohmann::json;\n"
        self.assert_together(json + "Json F() { return {}; }", json + "Json G() { return {}; }")
        ordered = "using Json = nlohmann::ordered_json;\n"
        self.assert_apart(json + "Json F() { return {}; }", ordered + "Json G() { return {}; }")

    def test_a_namespace_that_is_used_as_a_whole_is_used_by_all_or_none(self):
        used = "using namespace other;\n"
        self.assert_apart(used + "int F() { return 1; }", "int G() { return 1; }")
        self.assert_together(used + "int F() { return 1; }", used + "int G() { return 1; }")

    def test_a_macro_before_an_include_is_for_that_source_alone(self):
        self.assert_apart('#define WITH_ALL\n#include "x.h"\nint F();', "int G();")

    def test_a_private_operator_is_for_its_source_alone(self):
        private = "namespace { bool operator==(const A& a, const A& b) { return Same(a, b); } }"
        self.assert_apart(private, "int G();")

    def test_units_have_a_bound(self):
        many = {f"s{number}": f"int F{number}() {{ return 1; }}" for number in range(40)}
        units = self.groups(**many)
        self.assertEqual(sum(map(len, units)), 40)
        self.assertLessEqual(max(map(len, units)), 10)

    def test_sources_of_a_costly_library_come_into_few_units(self):
        (self.folder / "tables.h").write_text("#include <nlohmann/json.hpp>\n")
        texts = {}
        for n in range(5):
            texts[f"plain{n}"] = f"int F{n}() {{ return 1; }}"
            texts[f"direct{n}"] = f"#include <nlohmann/json.hpp>\nint G{n}() {{ return 1; }}"
            texts[f"plain1{n}"] = f"int F1{n}() {{ return 1; }}"
            texts[f"through{n}"] = f'#include "tables.h"\nint H{n}() {{ return 1; }}'
        costly = sorted(name for name in texts if not name.startswith("plain"))
        self.assertIn(costly, self.groups(**texts))

    def test_generated_sources_are_compiled_alone(self):
        (self.folder / "build/c.cc").write_text("int F() { return 1; }")
        self.assertEqual(self.groups(**{"a": "int A();", "build/c": "int C();"}), [])


if __name__ == "__main__":
    unittest.main()
