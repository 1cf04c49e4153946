// SPDX-License-Identifier: Apache-2.0
// The generated entries that stand in for what this driver does not implement: each answers NOT_SUPPORTED and says so once.
#pragma once

extern "C" {
struct Farcall_DefaultEntry {
  const char* name;
  void* entry;
};
extern const Farcall_DefaultEntry kDefaultEntries[];  // ends with a null name
}
