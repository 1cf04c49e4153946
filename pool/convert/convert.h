// SPDX-License-Identifier: Apache-2.0
// Between the core's words and pool.proto's.
#pragma once

#include "generated/proto/pool.pb.h"
#include "pool/core/core.h"
#include "proto/status.h"

namespace farcall::pool {

namespace pb = farcall::pool::v1;

// What is asked for.   Errors  a field that cannot be read
std::optional<Refusal> ToAsk(const pb::ClaimRequest& request, Ask* ask);
pb::ClaimRequest ToProto(const Ask& ask);
std::optional<Refusal> ToChange(const pb::ClaimChange& request, ChangeClaim* change);
pb::Claim ToProto(const Claim& claim, const Host* host);
pb::Host ToProto(const Host& host, Ms now);
pb::Gpu ToProto(const Gpu& gpu, const std::string& host, uint32_t index);
pb::Explanation ToProto(const Explanation& told);
// False: it is neither 0 nor 0.001 to 100,000.
bool ToGflops(double tflops, uint32_t* gflops);
// 0: 1. False: it is not one of 1 to 16.
bool ToOversubscribe(double factor, uint32_t* milli);
// As people write it.
std::string NumberText(double number);
// Of groups and of what one alternative asks for: convert_group.cc.
//   Errors  a selector or placer that cannot be read
std::optional<Refusal> ToGroup(const pb::Group& given, Group* group);
pb::Group ToProto(const Group& group);
// Of what ToProto made.
Group GroupOf(const pb::Group& stored);
Size FromProto(const pb::ClaimSize& given);
pb::ClaimSize ToProto(const Size& size);
// Of projects: convert_project.cc.
Project FromProto(const pb::Project& given);
pb::Project ToProto(const Project& project);
pb::Project ToProto(const ProjectState& state);
// With what tenants have used, which is nobody's to see.
pb::Project ToStored(const ProjectState& state);
// Of reservations: convert_reservation.cc.
//   Errors  a time or selector that cannot be read
std::optional<Refusal> ToReservation(const pb::Reservation& given, Reservation* reservation);
pb::Reservation ToProto(const Reservation& reservation);
Reservation ReservationOf(const pb::Reservation& stored);
// Of join tokens, as the store holds them.
std::pair<std::string, JoinToken> FromProto(const pb::StoredJoinToken& stored);
pb::StoredJoinToken ToStored(const std::string& hash, const JoinToken& token);
pb::ConfigChange ToProto(const ConfigChange& change);
pb::Grant ToProto(const Grant& grant);

// As the store holds them.
// What a host says of it.
pb::Gpu ReportedToProto(const Gpu& gpu);
Gpu FromProto(const pb::Gpu& told);
Claim FromProto(const pb::Claim& stored);
Host FromProto(const pb::Host& stored);

// From a host, which may say anything: bounded.   Errors  kInvalid, one line
Result<HostReport> FromProto(const pb::HostReport& told);

}  // namespace farcall::pool
