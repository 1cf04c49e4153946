// SPDX-License-Identifier: Apache-2.0
// Times as people write them, with the zone that they are in.
#pragma once

#include <cstdint>
#include <string>

#include "proto/status.h"

namespace farcall::pool {

// Seconds since 1970 of "2026-12-01T08:00[:SS]" (or with a space for the T) and a zone: "Z",
// "+01:00", or a name of the time zone database, as " Europe/Berlin".
//   Errors  kInvalid, one line: what cannot be read; no zone; a time that the zone's clocks leave
//           out, or show twice, when they change
//   Thread  any
Result<int64_t> ReadTimeOfDay(const std::string& text);
// As "2026-12-01T07:00:00Z".
std::string TimeOfDayText(int64_t unix_seconds);

}  // namespace farcall::pool
