// SPDX-License-Identifier: Apache-2.0
// A library of nothing but defaults, for the test that looks at what it exports.
extern "C" __attribute__((visibility("default"))) void FarcallLogUnsupported(const char*) {}
extern "C" __attribute__((visibility("default"))) int cuInit(unsigned) {
  return 0;
}
