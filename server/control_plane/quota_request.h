// SPDX-License-Identifier: Apache-2.0
// What a caller of SetQuota asks for, checked before the supervisor hears of it. Knows no gRPC.
#pragma once

#include "generated/proto/control.pb.h"
#include "proto/status.h"
#include "server/control/control_plane.h"

namespace farcall::control_plane {

//   Errors  kInvalid, one line
Status ReadQuota(const control::v1::SetQuotaRequest& request, server::QuotaChange* change);

}  // namespace farcall::control_plane
