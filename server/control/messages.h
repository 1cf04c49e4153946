// SPDX-License-Identifier: Apache-2.0
// The messages of each direction. A receiver accepts these and refuses anything else as malformed.
// To add a message, write its struct in its conversation's file, add a Type, and list it here.
#pragma once

#include <variant>

#include "server/control/charge.h"
#include "server/control/control_plane.h"
#include "server/control/image.h"
#include "server/control/lease.h"
#include "server/control/net.h"
#include "server/control/pool.h"
#include "server/control/probe.h"
#include "server/control/process_memory.h"
#include "server/control/session.h"
#include "server/control/share.h"
#include "server/control/swap.h"
#include "server/control/tls.h"

namespace farcall::server::control {

using ToWorker = std::variant<Sharing, Lease, LeaseMore, LeaseLimit, ChargeReply, Usage,
                              RecallCredit, SwapOut, SwapIn, ShareReply, RedeemReply, NetLimit,
                              NetBytes, Setup, Resume, Lane, Stop, ClientGone, Processes>;
using FromWorker =
    std::variant<WantLease, LeaseUse, LeaseRuns, LeaseDone, Charge, Refund, AskUsage, Unspent, Idle,
                 WantIn, Moved, SwapDone, DeviceFull, Share, Redeem, Drop, WantNetBytes, NetUse,
                 AskProcesses, Peak, Skipped, Ended, KeepImage, ImageRead>;
using FromProbe = std::variant<ProbeReport>;
using ToProcessMemory = std::variant<AskProcessMemory>;
using FromProcessMemory = std::variant<ProcessMemory, ProcessMemoryEnd>;
using ToControlPlane = std::variant<ServerStatus, QuotaReply>;
using FromControlPlane = std::variant<AskStatus, SetQuota, Park>;
using ToPoolAgent = std::variant<PoolReport, PoolChanged>;
using FromPoolAgent = std::variant<PoolBeat, PoolAnswer>;
using FromTlsGateway = std::variant<TlsReady, TlsConnected, TlsWarning>;

template <typename Variant>
struct DirectionOf;
template <Message First, Message... Rest>
struct DirectionOf<std::variant<First, Rest...>> {
  static constexpr Direction kDirection = First::kDirection;
  static_assert(((Rest::kDirection == kDirection) && ...), "a message of another direction");
};
static_assert(DirectionOf<ToWorker>::kDirection == Direction::kToWorker);
static_assert(DirectionOf<FromWorker>::kDirection == Direction::kFromWorker);
static_assert(DirectionOf<FromProbe>::kDirection == Direction::kFromProbe);
static_assert(DirectionOf<ToProcessMemory>::kDirection == Direction::kToProcessMemory);
static_assert(DirectionOf<FromProcessMemory>::kDirection == Direction::kFromProcessMemory);
static_assert(DirectionOf<ToControlPlane>::kDirection == Direction::kToControlPlane);
static_assert(DirectionOf<FromControlPlane>::kDirection == Direction::kFromControlPlane);
static_assert(DirectionOf<ToPoolAgent>::kDirection == Direction::kToPoolAgent);
static_assert(DirectionOf<FromPoolAgent>::kDirection == Direction::kFromPoolAgent);
static_assert(DirectionOf<FromTlsGateway>::kDirection == Direction::kFromTlsGateway);

}  // namespace farcall::server::control
