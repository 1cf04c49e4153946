// SPDX-License-Identifier: Apache-2.0
// A library that another one needs, built twice under one SONAME.
int fcneed_which(void) {
  return WHICH;
}
