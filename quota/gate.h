// SPDX-License-Identifier: Apache-2.0
// The gate in front of a session's FIFO: decides when the next record may reach the device.
#pragma once

#include <chrono>
#include <cstdint>

namespace farcall::quota {

// What the gate may know of a record. The gate sees the whole session in log order, so a record it
// holds holds everything behind it: waits across streams cannot deadlock.
struct GateRecord {
  uint16_t call = 0;
  uint16_t context = 0;
  bool launches_work = false;  // kernels and graphs; copies and bookkeeping pass
};

class Gate {
 public:
  enum class Verdict { kPass, kHold };
  virtual ~Gate() = default;

  // Called once per record before its serve function, again for a held one after `retry_after()`.
  //   Thread  the session's issue thread
  virtual Verdict Admit(const GateRecord& record) = 0;
  virtual std::chrono::nanoseconds retry_after() const = 0;
};

// Admits everything: a vGPU without a compute limit.
class OpenGate final : public Gate {
 public:
  Verdict Admit(const GateRecord&) override { return Verdict::kPass; }
  std::chrono::nanoseconds retry_after() const override { return std::chrono::nanoseconds(0); }
};

}  // namespace farcall::quota
