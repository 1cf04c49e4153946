// SPDX-License-Identifier: Apache-2.0
// A pool's leases as a host's server checks them. The first byte says what the rest is: a token as
// it comes; a change to a valid one; what a pool signs, as it comes; or fields of leases that are
// shown one after the other. A lease opens one session, at its host, at its start, in its time, and
// nothing else opens any.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "proto/handshake/lease_token.h"
#include "server/supervisor/services/lease_gate.h"

namespace {

using namespace farcall;
using server::LeaseGate;

constexpr int64_t kNow = 1'800'000'000;
constexpr uint64_t kInstance = 42;

void Require(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

const LeaseSecretKey& Key() {
  static const LeaseSecretKey key = NewLeaseKey();
  return key;
}

const LeaseSecretKey& OtherKey() {
  static const LeaseSecretKey key = NewLeaseKey();
  return key;
}

LeaseGate MakeGate() {
  LeaseGate gate("gpu7", kInstance);
  gate.SetPool("pool", PublicHalf(Key()));
  return gate;
}

Lease GoodLease() {
  return {"pool", "c-1", "gpu7", 3, kInstance, "jti", kNow, kNow + kLeaseSeconds};
}

bool Opens(LeaseGate& gate, const std::string& token, int64_t now = kNow) {
  Result<Lease> lease = gate.Check(token, now);
  if (!lease.ok()) {
    Require(lease.status().code() == Code::kRefused, "another error than a refusal");
    return false;
  }
  Require(lease->pool == "pool" && lease->host == "gpu7" && lease->instance == kInstance,
          "a lease for somewhere else");
  Require(now <= lease->expires + kLeaseSkewSeconds && now >= lease->not_before - kLeaseSkewSeconds,
          "a lease out of its time");
  gate.Use(*lease);
  Require(!gate.Check(token, now).ok(), "a lease that is shown again");
  return true;
}

void ShowRaw(std::string_view bytes) {
  LeaseGate gate = MakeGate();
  Require(!Opens(gate, std::string(bytes)), "a lease that nobody signed");
}

// {u16 position, u8 how, bytes}: the bytes replace those there, or come between them, or as many
// there go.
void ShowChanged(std::string_view bytes) {
  if (bytes.size() < 3) return;
  LeaseGate gate = MakeGate();
  const std::string good = SignLease(GoodLease(), Key());
  uint16_t position = 0;
  std::memcpy(&position, bytes.data(), sizeof(position));
  const size_t at = position % (good.size() + 1);
  const std::string_view text = bytes.substr(3);
  std::string changed = good;
  switch (bytes[2] & 3) {
    case 0:
      changed.replace(at, std::min(text.size(), good.size() - at), text);
      break;
    case 1:
      changed.insert(at, text);
      break;
    case 2:
      changed.erase(at, text.size());
      break;
    default:
      if (at < good.size()) changed[at] = static_cast<char>(changed[at] ^ (1 << (bytes[2] >> 5)));
      break;
  }
  Require(Opens(gate, changed) == (changed == good), "a changed lease, or the good one refused");
}

void ShowSigned(std::string_view bytes) {
  LeaseGate gate = MakeGate();
  if (bytes.size() < kMaxLeaseBytes) (void)Opens(gate, SignPaseto(bytes, Key()));
}

// {u8 what is wrong, u8 id, i16 begins, i16 ends, i16 seconds since the one before}, again and
// again.
void ShowMany(std::string_view bytes) {
  struct Choice {
    uint8_t wrong, id;
    int16_t begins, ends, passed;
  };
  static_assert(sizeof(Choice) == 8);
  LeaseGate gate = MakeGate();
  std::set<std::string> used;
  int64_t now = kNow;
  for (; bytes.size() >= sizeof(Choice); bytes.remove_prefix(sizeof(Choice))) {
    Choice choice;
    std::memcpy(&choice, bytes.data(), sizeof(choice));
    now += std::abs(choice.passed);
    Lease lease = GoodLease();
    lease.id = std::to_string(choice.id);
    lease.not_before = now + choice.begins;
    lease.expires = now + choice.ends;
    if (choice.wrong & 1) lease.pool += "x";
    if (choice.wrong & 2) lease.host += "x";
    if (choice.wrong & 4) lease.instance += choice.id + 1;
    const bool is_forged = (choice.wrong & 8) != 0;
    const bool is_good = (choice.wrong & 15) == 0 && choice.begins <= kLeaseSkewSeconds &&
                         choice.ends >= -kLeaseSkewSeconds;
    const std::string token = SignLease(lease, is_forged ? OtherKey() : Key());
    const bool opened = Opens(gate, token, now);
    if (opened) Require(is_good, "a lease that is none");
    // One that was shown stays known while it could be shown again.
    if (is_good && !opened) Require(used.count(lease.id) != 0, "a good lease was refused");
    if (opened) used.insert(lease.id);
    Require(gate.used() <= used.size(), "more leases are kept than were shown");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      ShowRaw(body);
      break;
    case 1:
      ShowChanged(body);
      break;
    case 2:
      ShowSigned(body);
      break;
    default:
      ShowMany(body);
      break;
  }
  return 0;
}
