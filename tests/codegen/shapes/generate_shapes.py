# SPDX-License-Identifier: Apache-2.0
"""Generates the made-up API's code: generate_shapes.py <folder of codegen> <output folder>."""

import sys
from pathlib import Path

codegen, out = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(codegen))
sys.dont_write_bytecode = True

import outputs  # noqa: E402
import parse_headers  # noqa: E402
from spec import load_spec  # noqa: E402

HERE = Path(__file__).resolve().parent
UNUSED = {"cuda-abi/proc_table.inc", "cpu-device/default_entries.cc", "exports.map"}

model = parse_headers.load_model(HERE, out / "model.json")
ids = {name: number for number, name in enumerate(sorted(model.functions), 1)}
inputs = outputs.Inputs(model, ids, [], load_spec(HERE / "shapes.yaml", model))
for path, render in outputs.OUTPUTS.items():
    if path not in UNUSED:
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(render(inputs))
