// SPDX-License-Identifier: Apache-2.0
// The two sessions, faked: the client's appends go straight into a ServeCall, whose resolves are
// reversible.
#include "tests/wire/wire_fixture.h"

#include <cstdlib>
#include <fstream>

#include "client-shim/core/session/session_face.h"

namespace farcall::server {

class Session {};

}  // namespace farcall::server

namespace farcall::wire_test {
namespace {

server::Session session;
uint32_t next_index = 1;

// FARCALL_WIRE_SEEDS=FOLDER: each record delivered becomes an input of fuzz_serve there, of one
// item and a client that has handles.
void SaveSeed(CallId call, std::span<const std::byte> body) {
  const char* folder = std::getenv("FARCALL_WIRE_SEEDS");
  if (folder == nullptr) return;
  static int count = 0;
  const auto bytes = static_cast<uint32_t>(body.size());
  const uint16_t header[] = {
      static_cast<uint16_t>(call),       kWantReply, 1, 1, static_cast<uint16_t>(bytes),
      static_cast<uint16_t>(bytes >> 16)};
  std::ofstream seed(std::string(folder) + "/" + CallName(call) + "_" + std::to_string(++count),
                     std::ios::binary);
  seed.put(1);
  seed.write(reinterpret_cast<const char*>(header), sizeof(header));
  seed.write(reinterpret_cast<const char*>(body.data()), bytes);
}

}  // namespace

int Wire::native_calls = 0;
CUresult Wire::answer = CUDA_SUCCESS;
Wire* Wire::current = nullptr;

Wire::Wire() {
  current = this;
  native_calls = 0;
  answer = CUDA_SUCCESS;
}

Wire::~Wire() {
  current = nullptr;
}

void Wire::Serve(CallId call, server::ServeFunction serve) {
  call_ = call;
  serve_ = serve;
}

CUresult Wire::Deliver(CallId call, std::span<const std::byte> body,
                       std::vector<std::byte>* reply) {
  EXPECT_EQ(call, call_) << CallName(call);
  std::vector<std::byte> padded(body.begin(), body.end());
  padded.resize(AlignUp(padded.size(), 8));
  if (well_formed) {
    CheckShorterBodies(padded);
    SaveSeed(call, padded);
  }
  RecordHeader header;
  server::Turn turn;
  server::ServeCall served(session, api, header, padded, turn);
  last_was_ok = serve_(served).ok();
  *reply = served.out.mutable_bytes();
  return served.result;
}

void Wire::CheckShorterBodies(std::span<const std::byte> body) {
  const int calls = native_calls;
  RecordHeader header;
  for (size_t bytes = 0; bytes < body.size(); bytes += 8) {
    server::Turn turn;
    server::ServeCall served(session, api, header, body.first(bytes), turn);
    EXPECT_FALSE(serve_(served).ok())
        << "a body of " << bytes << " of " << body.size() << " bytes is taken";
  }
  server::DriverApi empty;
  server::Turn turn;
  server::ServeCall served(session, empty, header, body, turn);
  EXPECT_TRUE(serve_(served).ok());
  EXPECT_EQ(served.result, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(native_calls, calls);
}

}  // namespace farcall::wire_test

namespace farcall::client {

using wire_test::Wire;

CUresult Post(CallId call, std::span<const std::byte> body, std::span<const std::byte>,
              const PostOptions&) {
  std::vector<std::byte> reply;
  CUresult result = Wire::current->Deliver(call, body, &reply);
  EXPECT_TRUE(reply.empty()) << "a post has no outputs";
  return result;
}

CUresult Query(CallId call, std::span<const std::byte> body, Reply* reply) {
  return RoundTrip(call, body, reply);
}

CUresult RoundTrip(CallId call, std::span<const std::byte> body, Reply* reply) {
  std::vector<std::byte> bytes;
  reply->status = Wire::current->Deliver(call, body, &bytes);
  std::copy(bytes.begin(), bytes.end(), reply->Allot(bytes.size()).begin());
  return reply->status;
}

uint64_t NewHandle(HandleKind kind, CUresult* error) {
  *error = CUDA_SUCCESS;
  return MakeHandle(kind, 1000 + wire_test::next_index++, 1);
}

bool CheckHandle(HandleKind kind, uint64_t handle) {
  return SplitHandle(handle).kind == kind;
}

// The server's check is under test: every extent reaches it.
uint64_t AddressOnDevice(uint64_t address) {
  return address;
}
bool HoldsMemory(uint64_t, uint64_t) {
  return true;
}

void FreeHandle(HandleKind kind, uint64_t handle) {
  Wire::current->freed_on_client.push_back({kind, handle, nullptr});
}

int32_t WireDevice(CUdevice device, CUresult* error) {
  *error = CUDA_SUCCESS;
  return device + wire_test::kDeviceShift;
}

uint64_t WireStream(CUstream stream, bool, CUresult* error) {
  *error = CUDA_SUCCESS;
  return stream == nullptr ? 1 : reinterpret_cast<uint64_t>(stream);
}

}  // namespace farcall::client

namespace farcall::server {

using wire_test::NativeOf;
using wire_test::Wire;

void ServeCall::Reject(const char* what) {
  rejected_ = true;
  reject_reason_ = what;
}

void* ServeCall::ResolveRaw(HandleKind kind, uint64_t wire, bool optional) {
  if (wire == 0 && optional && !Wire::current->rejected) return nullptr;
  if (Wire::current->rejected || SplitHandle(wire).kind != kind) Reject("handle");
  return reinterpret_cast<void*>(NativeOf(wire));
}

CUstream ServeCall::ResolveStream(uint64_t wire) {
  if (Wire::current->rejected) Reject("stream");
  return reinterpret_cast<CUstream>(NativeOf(wire));
}

CUdeviceptr ServeCall::ResolveAddress(uint64_t wire, uint64_t bytes) {
  Wire::current->last_extent = bytes;
  if (Wire::current->rejected) Reject("address");
  return wire;
}

CUdevice ServeCall::ResolveDevice(int32_t ordinal) {
  if (Wire::current->rejected) Reject("device");
  return ordinal;
}

void ServeCall::CheckNew(HandleKind kind, uint64_t wire) {
  if (Wire::current->rejected || SplitHandle(wire).kind != kind) Reject("new handle");
}

void ServeCall::Insert(HandleKind kind, uint64_t wire, void* native) {
  Wire::current->inserted.push_back({kind, wire, native});
}

void ServeCall::Erase(HandleKind kind, uint64_t wire) {
  Wire::current->erased.push_back({kind, wire, nullptr});
}

Status ServeCall::Malformed(const char* what) const {
  return Status(Code::kMalformed, what);
}

Status ServeCall::RejectStatus() const {
  return rejected_ ? Status(Code::kMalformed, reject_reason_) : Status();
}

}  // namespace farcall::server
