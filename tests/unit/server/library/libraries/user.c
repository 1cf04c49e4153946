// SPDX-License-Identifier: Apache-2.0
// A library that brings its own need along, as cuDNN brings cuBLASLt.
int fcneed_which(void);
int fcuser_which(void) {
  return fcneed_which();
}
