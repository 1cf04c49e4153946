# SPDX-License-Identifier: Apache-2.0
"""A fake of a mathematics library for a server to load: every name it exports is a stub that writes down raw registers and stack (recorder.c)."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "codegen"))
from library_spec import CODEGEN  # noqa: E402

STUB = """
  .globl {name}
  .type {name}, @function
{name}:
  mov ${index}, %eax
  jmp farcall_fake_entry
"""
ENTRY = """
farcall_fake_entry:
  sub $120, %rsp
  mov %rdi, 0(%rsp)
  mov %rsi, 8(%rsp)
  mov %rdx, 16(%rsp)
  mov %rcx, 24(%rsp)
  mov %r8, 32(%rsp)
  mov %r9, 40(%rsp)
  movq %xmm0, 48(%rsp)
  movq %xmm1, 56(%rsp)
  movq %xmm2, 64(%rsp)
  movq %xmm3, 72(%rsp)
  movq %xmm4, 80(%rsp)
  movq %xmm5, 88(%rsp)
  movq %xmm6, 96(%rsp)
  movq %xmm7, 104(%rsp)
  mov %eax, %edi
  mov %rsp, %rsi
  lea 128(%rsp), %rdx
  call farcall_fake_record@PLT
  add $120, %rsp
  ret
"""


def fake(name, major, folder, lacks=()):
    """Builds lib<name>.so.<major> of stubs."""
    names = [
        line
        for line in (CODEGEN / "exports" / f"{name.lower()}.{major}.txt").read_text().split()
        if line not in lacks
    ]
    text = "  .text\n" + ENTRY + "".join(STUB.format(name=n, index=i) for i, n in enumerate(names))
    text += '  .section .note.GNU-stack,"",@progbits\n'
    (folder / f"{name}.s").write_text(text)
    table = ",".join(f'"{n}"' for n in names)
    (folder / f"{name}_names.c").write_text(
        f"const char* const farcall_fake_names[] = {{{table}}};\n"
    )
    compiler = os.environ.get("FARCALL_CC", "cc")
    subprocess.run(
        [
            compiler,
            "-shared",
            "-fPIC",
            "-O1",
            str(folder / f"{name}.s"),
            str(folder / f"{name}_names.c"),
            str(HERE / "recorder.c"),
            "-Wl,-Bsymbolic",
            f"-Wl,-soname,lib{name}.so.{major}",
            "-o",
            str(folder / f"lib{name}.so.{major}"),
        ],
        check=True,
    )
