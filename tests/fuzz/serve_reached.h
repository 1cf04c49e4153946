// SPDX-License-Identifier: Apache-2.0
// Which of the server's record handlers the inputs have reached, told by what the session answers.
#pragma once

#include <cstdint>

#include "proto/status.h"

namespace farcall::fuzz {

// The session took the record of `call` and did what it says: a success in its reply, or for a
// record that has none, a reply to a later record and no error.
void NoteServed(uint16_t call);
// A session was over: having served all of its input, or with a refusal.
void NoteSession(bool to_its_end, const Status& end);
// A session message that a client may send.
bool IsClientMessage(uint16_t call);

struct Reached {
  int reached = 0;
  int all = 0;
  double percent() const { return all == 0 ? 0 : 100.0 * reached / all; }
};
// Of the dispatch table's rows: those that codegen wrote, those written by hand; and the session's
// own messages.
Reached GeneratedReached();
Reached HandwrittenReached();
Reached MessagesReached();

// Prints the three figures and what is missing.
void ReportReached();

}  // namespace farcall::fuzz
