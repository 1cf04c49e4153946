// SPDX-License-Identifier: Apache-2.0
// verbs:// in this process, for the suite over every transport: who is accepted gets an end at
// once, and is the server. The URL names the card and what the connection is for:
// verbs://127.0.0.1:0/fake, /fakelane, /card, /cardlane.
#pragma once

#include <string>
#include <vector>

#include "transport/verbs/verbs_device.h"

namespace farcall::test {

// After it Dial and Listen know verbs://, and these URLs of it.
std::vector<std::string> AddVerbsForTests();

// The fake one, or this machine's; null: it has none.
VerbsDevice* VerbsDeviceFor(const std::string& card);
// What the table of the card holds, for tests that replace some of it.
VerbsApi VerbsTableOf(const std::string& card);

}  // namespace farcall::test
