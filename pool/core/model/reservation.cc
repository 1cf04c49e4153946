// SPDX-License-Identifier: Apache-2.0
#include "pool/core/model/reservation.h"

#include "pool/core/model/project.h"

namespace farcall::pool {

std::pair<std::string, std::string> FaultOf(const Reservation& reservation, int64_t now_unix) {
  if (!IsHostName(reservation.name))
    return {"a reservation's name has 1 to 64 letters, digits and . _ -", "name"};
  if (reservation.gpus < 1 || reservation.gpus > kMaxReservedGpus)
    return {
        "gpus " + std::to_string(reservation.gpus) + ": 1 to " + std::to_string(kMaxReservedGpus),
        "gpus"};
  if (!reservation.project.empty() && !IsProjectName(reservation.project))
    return {"'" + reservation.project.substr(0, kMaxProjectName) + "' is no project's name",
            "project"};
  auto ago = [&](int64_t at) { return std::to_string(now_unix - at) + " s ago"; };
  if (reservation.begin_unix != 0 && reservation.begin_unix < now_unix)
    return {"begin: " + ago(reservation.begin_unix) + "; leave it out to begin now", "begin"};
  if (reservation.end_unix <= now_unix)
    return {"end: " + ago(reservation.end_unix) + "; it has to come after the begin", "end"};
  if (reservation.end_unix <= reservation.begin_unix)
    return {"end: " + std::to_string(reservation.begin_unix - reservation.end_unix) +
                " s before the begin, or at once",
            "end"};
  if (reservation.end_unix - now_unix > kMaxReservationSeconds)
    return {"end: more than a year from now", "end"};
  return {};
}

}  // namespace farcall::pool
