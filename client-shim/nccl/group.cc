// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/group.h"

#include <thread>
#include <utility>
#include <vector>

#include "client-shim/nccl/base/driver.h"
#include "client-shim/nccl/base/error.h"

namespace farcall::nccl {

namespace {

struct Collective {
  Communicator* comm;
  CUstream stream;
  std::function<ncclResult_t()> prepare, work;
};

struct Group {
  int depth = 0;
  std::vector<std::function<ncclResult_t()>> creations;
  std::vector<Collective> collectives;
  std::vector<std::pair<Communicator*, std::vector<Transfer>>> transfers;
};
thread_local Group t_group;

ncclResult_t Run(Communicator& comm, CUstream stream, const std::function<ncclResult_t()>& work) {
  std::lock_guard lock(comm.mutex());
  InContext in(comm.context());
  FARCALL_NCCL_TRY(comm.Begin(stream));
  FARCALL_NCCL_TRY(work());
  return comm.End(stream);
}

ncclResult_t Prepare(const Collective& collective) {
  if (collective.prepare == nullptr) return ncclSuccess;
  std::lock_guard lock(collective.comm->mutex());
  InContext in(collective.comm->context());
  return collective.prepare();
}

ncclResult_t RunCreations(const std::vector<std::function<ncclResult_t()>>& creations) {
  if (creations.size() == 1) return creations[0]();
  std::vector<ncclResult_t> results(creations.size(), ncclSuccess);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < creations.size(); ++i)
    threads.emplace_back([&, i] { results[i] = creations[i](); });
  for (std::thread& thread : threads) thread.join();
  for (ncclResult_t result : results)
    if (result != ncclSuccess) return result;
  return ncclSuccess;
}

ncclResult_t RunAll(const Group& group) {
  if (!group.creations.empty()) FARCALL_NCCL_TRY(RunCreations(group.creations));
  ncclResult_t first = ncclSuccess;
  auto keep = [&](ncclResult_t result) {
    if (first == ncclSuccess) first = result;
  };
  for (const Collective& collective : group.collectives) keep(Prepare(collective));
  if (first != ncclSuccess) return first;
  for (const Collective& collective : group.collectives)
    keep(Run(*collective.comm, collective.stream, collective.work));
  for (const auto& [comm, transfers] : group.transfers)
    keep(Run(*comm, transfers[0].stream,
             [comm = comm, &transfers = transfers] { return Transfers(*comm, transfers); }));
  return first;
}

}  // namespace

ncclResult_t AddCreation(std::function<ncclResult_t()> creation) {
  StartGroup();
  t_group.creations.push_back(std::move(creation));
  return EndGroup();
}

ncclResult_t AddCollective(Communicator* comm, CUstream stream,
                           std::function<ncclResult_t()> prepare,
                           std::function<ncclResult_t()> collective) {
  StartGroup();
  t_group.collectives.push_back({comm, stream, std::move(prepare), std::move(collective)});
  return EndGroup();
}

ncclResult_t AddTransfer(Communicator* comm, const Transfer& transfer) {
  StartGroup();
  for (auto& [of, transfers] : t_group.transfers) {
    if (of != comm) continue;
    transfers.push_back(transfer);
    return EndGroup();
  }
  t_group.transfers.push_back({comm, {transfer}});
  return EndGroup();
}

void StartGroup() {
  ++t_group.depth;
}

void DropGroup() {
  const int depth = t_group.depth;
  t_group = {};
  t_group.depth = depth;
}

ncclResult_t EndGroup() {
  if (t_group.depth == 0) return Fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--t_group.depth > 0) return ncclSuccess;
  Group group = std::exchange(t_group, {});
  return RunAll(group);
}

}  // namespace farcall::nccl
