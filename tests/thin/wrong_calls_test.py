#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wrong_calls_test.py LIBRARY: generated wrong calls answer what NVIDIA's library answers, at the call; known.yaml lists what differs, and why.

Exit code 77 if NVIDIA's library is not here."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "wrong_calls"))
import compare  # noqa: E402
import plan  # noqa: E402

# What a run of a minute can do; `compare.py LIBRARY` makes all of them.
FUNCTIONS = {
    "cublas": r"cublas(S(gemm|gemv|axpy|dot|scal|ger|trsm|syrk)_v2|Sgemm(Strided)?Batched|SgetrfBatched|GemmEx|GemmStridedBatchedEx|Dgemm_v2_64)",
    "cublaslt": ".*",
    "cudnn": ".*",
    "cufft": r"cufftExec\w+|cufftXtExec|cufftGetSize\w*|cufftSetPlan\w+",
    "curand": ".*",
    "cusolver": r"cusolverDnS(potr[fs](Batched)?|getrf|geqrf|orgqr|ormqr|orgbr|sytrd|sytri|gesvd)"
    r"(_bufferSize)?|cusolverDnXlarft",
    "cusparse": r"cusparse(SpM[MV]|SDDMM|Sp[SM][VM]_\w+|SparseToDense|DenseToSparse_\w+|Axpby|Gather|Scatter|SpVV|Create(Const)?(Csr|Dn\w+))(_bufferSize)?",
}
FEWEST = {
    "cublas": 600,
    "cublaslt": 150,
    "cudnn": 400,
    "cufft": 60,
    "curand": 80,
    "cusolver": 400,
    "cusparse": 200,
}  # calls: fewer means that a plan fell out


class WrongCalls(unittest.TestCase):
    def test_codes(self):
        rows = compare.compare(LIBRARY, FUNCTIONS[LIBRARY])
        differ = [
            f"{function}({what}): {theirs}, {ours}"
            for function, what, theirs, ours in rows
            if compare.classify(theirs, ours) in compare.DIFFERENT
            and not compare.known(LIBRARY, function, what)
        ]
        self.assertFalse(
            differ, f"{len(differ)} of {len(rows)}, NVIDIA's and ours:\n" + "\n".join(differ[:40])
        )
        same = [row for row in rows if compare.classify(*row[2:]) == "same, an error"]
        self.assertGreater(len(same), FEWEST[LIBRARY] // 3)
        self.assertGreaterEqual(len(rows), FEWEST[LIBRARY])
        print(
            f"{LIBRARY}: {len(rows)} calls, {len(same)} wrong ones with NVIDIA's code",
            file=sys.stderr,
        )


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    soname = plan.spec_of(LIBRARY, compare.INCLUDE, compare.BUILD).sonames[plan.MAJORS[LIBRARY]]
    if not (pathlib.Path(compare.TOOLKIT) / soname).exists():
        print(f"skipped: no {soname} in {compare.TOOLKIT}")
        sys.exit(77)
    unittest.main(verbosity=2)
