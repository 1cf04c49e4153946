#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuRAND's generators on the device against those that run on the host: bit for bit where they only scale integers, else within rounding.

    curand_host.py LIBRARIES        the folder of NVIDIA's libraries; exit code 77 if it has no cuRAND

Run with the device's libcuda in LD_LIBRARY_PATH. Fails where no kernel runs."""

import ctypes
import pathlib
import sys
from ctypes import byref, c_double, c_float, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "thin/programs"))
from device import Memory, start  # noqa: E402

PSEUDO = {"xorwow": 101, "mrg32k3a": 121, "mtgp32": 141, "mt19937": 142, "philox": 161}
QUASI = {"sobol32": 201, "scrambled_sobol32": 202, "sobol64": 203, "scrambled_sobol64": 204}
COUNT = 4 * 10240  # a multiple of what generators take: of the dimensions, and of two


def distributions(kind):
    """Name, type, arguments, and how far from the host's relative to the largest number: what only scales integers is the same, logarithms
    and sines are another library's."""
    wide = kind in (203, 204)
    yield ("LongLong", c_uint64, (), 0) if wide else ("", c_uint, (), 0)
    yield "Uniform", c_float, (), 0
    yield "UniformDouble", c_double, (), 0
    yield "Normal", c_float, (c_float(1), c_float(2)), 1e-6
    # Of mtgp32 the host's are numbers of single precision.
    yield "NormalDouble", c_double, (c_double(1), c_double(2)), 1e-6 if kind == 141 else 1e-14
    yield "LogNormal", c_float, (c_float(0), c_float(0.5)), 1e-6
    yield "LogNormalDouble", c_double, (c_double(0), c_double(0.5)), 1e-14
    if not wide:
        yield "Poisson", c_uint, (c_double(3.5),), 0


def generator(curand, create, kind):
    made = c_void_p()
    assert getattr(curand, create)(byref(made), kind) == 0, (create, kind)
    if kind < 200:
        assert curand.curandSetPseudoRandomGeneratorSeed(made, c_ulonglong(20251123)) == 0
        if kind not in (141, 142):  # the twisters take no offset
            assert curand.curandSetGeneratorOffset(made, c_ulonglong(12345)) == 0
    else:
        assert curand.curandSetQuasiRandomGeneratorDimensions(made, 4) == 0
    return made


def main():
    path = pathlib.Path(sys.argv[1]) / "libcurand.so.10"
    if not path.exists():
        print(f"skipped: no {path.name} in {sys.argv[1]}")
        return 77
    start()
    curand = ctypes.CDLL(str(path))
    compared = failed = 0
    for name, kind in (PSEUDO | QUASI).items():
        device, host = (
            generator(curand, "curandCreateGenerator", kind),
            generator(curand, "curandCreateGeneratorHost", kind),
        )
        for suffix, element, arguments, tolerance in distributions(kind):
            call = getattr(curand, "curandGenerate" + suffix)
            memory, want = Memory(element, COUNT), (element * COUNT)()
            codes = (
                call(device, memory.address, c_size_t(COUNT), *arguments),
                call(host, want, c_size_t(COUNT), *arguments),
            )
            got, want = memory.read(), list(want)
            off = (
                max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, want))
                if codes == (0, 0)
                else None
            )
            good = codes == (0, 0) and len(set(want)) > 5 and off <= tolerance
            compared += 1
            failed += not good
            print(
                f"{name} {suffix or 'Bits'}: {'codes %d %d' % codes if off is None else 'equal' if off == 0 else f'off by {off:.1e}'}"
                f"{'' if good else ' FAILED'}",
                flush=True,
            )
    print(f"{compared} compared, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
