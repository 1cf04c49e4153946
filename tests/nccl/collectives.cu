// SPDX-License-Identifier: Apache-2.0
// Every collective, type and operation against the same computed on the host.
//
//   collectives threads RANKS [DEVICES]  ranks are threads of this process, on so many devices
//   collectives rank RANK RANKS FILE     one rank; rank 0 writes the unique id into FILE, the
//   others wait for it
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/nccl/check.h"

// A whole number small enough to be exact in every type.
int Value(int rank, size_t index) {
  return 1 + static_cast<int>((rank * 7 + index * 3) % 3);
}

template <class T>
T Make(int value) {
  return static_cast<T>(value);
}
template <>
__half Make<__half>(int value) {
  return __float2half(static_cast<float>(value));
}
template <>
__nv_bfloat16 Make<__nv_bfloat16>(int value) {
  return __float2bfloat16(static_cast<float>(value));
}
template <class T>
double Read(T value) {
  return static_cast<double>(value);
}
template <>
double Read<__half>(__half value) {
  return __half2float(value);
}
template <>
double Read<__nv_bfloat16>(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

struct Rank {
  int rank, ranks;
  ncclComm_t comm;
  cudaStream_t stream;
};

// Freed when the communicator is gone: cudaFree may wait for all of the context's streams, and so
// for the other ranks of this process.
thread_local std::vector<void*> t_allocated;

template <class T>
struct DeviceArray {
  explicit DeviceArray(size_t count) : count(count) {
    CHECK_CUDA(cudaMalloc(&data, count * sizeof(T)));
    t_allocated.push_back(data);
  }
  void Put(const std::vector<T>& from) {
    CHECK_CUDA(cudaMemcpy(data, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> Get(cudaStream_t stream) {
    CHECK_CUDA(cudaStreamSynchronize(stream));
    std::vector<T> host(count);
    CHECK_CUDA(cudaMemcpy(host.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }
  T* data = nullptr;
  size_t count;
};

template <class T>
void Expect(const Rank& at, const std::string& what, const std::vector<T>& got,
            const std::function<double(size_t)>& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (Read(got[i]) == want(i)) continue;
    std::fprintf(stderr, "rank %d of %d: %s: element %zu is %g, not %g\n", at.rank, at.ranks,
                 what.c_str(), i, Read(got[i]), want(i));
    std::exit(1);
  }
}

template <class T>
std::vector<T> Input(int rank, size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = Make<T>(Value(rank, i));
  return values;
}

double Reduced(ncclRedOp_t op, int ranks, size_t index, bool whole) {
  double result = Value(0, index);
  for (int i = 1; i < ranks; ++i) {
    double next = Value(i, index);
    if (op == ncclSum || op == ncclAvg) result += next;
    if (op == ncclProd) result *= next;
    if (op == ncclMax) result = std::max(result, next);
    if (op == ncclMin) result = std::min(result, next);
  }
  if (op == ncclAvg) result = whole ? static_cast<int>(result) / ranks : result / ranks;
  return result;
}

// The average of whole numbers is rounded in halves and floats: to the type, once.
template <class T>
double InType(double value) {
  return Read(static_cast<T>(value));
}
template <>
double InType<__half>(double value) {
  return __half2float(__float2half(static_cast<float>(value)));
}
template <>
double InType<__nv_bfloat16>(double value) {
  return __bfloat162float(__float2bfloat16(static_cast<float>(value)));
}

template <class T>
void Reductions(const Rank& at, ncclDataType_t type, bool whole, size_t count) {
  for (ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
    std::string name = "type " + std::to_string(type) + " op " + std::to_string(op);
    auto want = [&](size_t i) { return InType<T>(Reduced(op, at.ranks, i, whole)); };
    DeviceArray<T> in(count * at.ranks), out(count), all(count * at.ranks);
    in.Put(Input<T>(at.rank, count * at.ranks));
    CHECK_NCCL(ncclAllReduce(in.data, out.data, count, type, op, at.comm, at.stream));
    Expect<T>(at, "all-reduce " + name, out.Get(at.stream), want);
    // In place.
    all.Put(Input<T>(at.rank, count * at.ranks));
    CHECK_NCCL(ncclAllReduce(all.data, all.data, count * at.ranks, type, op, at.comm, at.stream));
    Expect<T>(at, "all-reduce in place " + name, all.Get(at.stream), want);
    const int root = at.ranks - 1;
    CHECK_CUDA(cudaMemsetAsync(out.data, 0, count * sizeof(T), at.stream));
    CHECK_NCCL(ncclReduce(in.data, out.data, count, type, op, root, at.comm, at.stream));
    Expect<T>(at, "reduce " + name, out.Get(at.stream),
              [&](size_t i) { return at.rank == root ? want(i) : 0; });
    CHECK_NCCL(ncclReduceScatter(in.data, out.data, count, type, op, at.comm, at.stream));
    Expect<T>(at, "reduce-scatter " + name, out.Get(at.stream),
              [&](size_t i) { return want(at.rank * count + i); });
  }
}

void Movements(const Rank& at, size_t count) {
  DeviceArray<float> in(count), out(count * at.ranks), one(count);
  in.Put(Input<float>(at.rank, count));
  CHECK_NCCL(ncclAllGather(in.data, out.data, count, ncclFloat32, at.comm, at.stream));
  Expect<float>(at, "all-gather", out.Get(at.stream),
                [&](size_t i) { return Value(static_cast<int>(i / count), i % count); });
  for (int root = 0; root < at.ranks; ++root) {
    CHECK_NCCL(ncclBroadcast(in.data, one.data, count, ncclFloat32, root, at.comm, at.stream));
    Expect<float>(at, "broadcast", one.Get(at.stream), [&](size_t i) { return Value(root, i); });
  }
  one.Put(Input<float>(at.rank, count));
  CHECK_NCCL(ncclBcast(one.data, count, ncclFloat32, 0, at.comm, at.stream));
  Expect<float>(at, "broadcast in place", one.Get(at.stream),
                [&](size_t i) { return Value(0, i); });
}

void Transfers(const Rank& at, size_t count) {
  const int next = (at.rank + 1) % at.ranks, before = (at.rank + at.ranks - 1) % at.ranks;
  DeviceArray<int> in(count), out(count);
  in.Put(Input<int>(at.rank, count));
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclSend(in.data, count, ncclInt32, next, at.comm, at.stream));
  CHECK_NCCL(ncclRecv(out.data, count, ncclInt32, before, at.comm, at.stream));
  CHECK_NCCL(ncclGroupEnd());
  Expect<int>(at, "ring", out.Get(at.stream), [&](size_t i) { return Value(before, i); });
  // Several of each pair in one group, more than there are slots, of several lengths.
  DeviceArray<int> parts(count * 5);
  CHECK_NCCL(ncclGroupStart());
  for (int i = 0; i < 5; ++i) {
    CHECK_NCCL(ncclRecv(parts.data + i * count, count - i, ncclInt32, before, at.comm, at.stream));
    CHECK_NCCL(ncclSend(in.data, count - i, ncclInt32, next, at.comm, at.stream));
  }
  CHECK_NCCL(ncclGroupEnd());
  std::vector<int> got = parts.Get(at.stream);
  for (int part = 0; part < 5; ++part) {
    std::vector<int> one(got.begin() + part * count, got.begin() + part * count + (count - part));
    Expect<int>(at, "several transfers", one, [&](size_t i) { return Value(before, i); });
  }
  DeviceArray<int> all_in(count * at.ranks), all_out(count * at.ranks);
  all_in.Put(Input<int>(at.rank, count * at.ranks));
  CHECK_NCCL(ncclAlltoAll(all_in.data, all_out.data, count, ncclInt32, at.comm, at.stream));
  Expect<int>(at, "all-to-all", all_out.Get(at.stream), [&](size_t i) {
    return Value(static_cast<int>(i / count), at.rank * count + i % count);
  });
  CHECK_NCCL(ncclGather(in.data, all_out.data, count, ncclInt32, 0, at.comm, at.stream));
  if (at.rank == 0)
    Expect<int>(at, "gather", all_out.Get(at.stream),
                [&](size_t i) { return Value(static_cast<int>(i / count), i % count); });
  CHECK_NCCL(ncclScatter(all_in.data, out.data, count, ncclInt32, 0, at.comm, at.stream));
  Expect<int>(at, "scatter", out.Get(at.stream),
              [&](size_t i) { return Value(0, at.rank * count + i); });
}

// Operations of one communicator are one order, whatever streams they are on.
void Streams(const Rank& at) {
  const size_t count = 5000;
  cudaStream_t other;
  CHECK_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  DeviceArray<int> values(count);
  values.Put(Input<int>(at.rank, count));
  CHECK_NCCL(
      ncclAllReduce(values.data, values.data, count, ncclInt32, ncclSum, at.comm, at.stream));
  CHECK_NCCL(ncclAllReduce(values.data, values.data, count, ncclInt32, ncclMax, at.comm, other));
  CHECK_NCCL(
      ncclAllReduce(values.data, values.data, count, ncclInt32, ncclSum, at.comm, at.stream));
  Expect<int>(at, "three on two streams", values.Get(at.stream),
              [&](size_t i) { return Reduced(ncclSum, at.ranks, i, true) * at.ranks; });
  CHECK_CUDA(cudaStreamDestroy(other));
}

void Factors(const Rank& at) {
  const size_t count = 100;
  DeviceArray<float> in(count), out(count), factor(1);
  in.Put(Input<float>(at.rank, count));
  float half = 0.5f;
  factor.Put({0.25f});
  ncclRedOp_t op;
  CHECK_NCCL(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat32, ncclScalarHostImmediate, at.comm));
  CHECK_NCCL(ncclAllReduce(in.data, out.data, count, ncclFloat32, op, at.comm, at.stream));
  Expect<float>(at, "factor of the host", out.Get(at.stream),
                [&](size_t i) { return 0.5 * Reduced(ncclSum, at.ranks, i, false); });
  CHECK_NCCL(ncclRedOpDestroy(op, at.comm));
  CHECK_NCCL(ncclRedOpCreatePreMulSum(&op, factor.data, ncclFloat32, ncclScalarDevice, at.comm));
  CHECK_NCCL(ncclAllReduce(in.data, out.data, count, ncclFloat32, op, at.comm, at.stream));
  Expect<float>(at, "factor of the device", out.Get(at.stream),
                [&](size_t i) { return 0.25 * Reduced(ncclSum, at.ranks, i, false); });
  CHECK_NCCL(ncclRedOpDestroy(op, at.comm));
}

void Split(const Rank& at) {
  // Even and odd ranks, the order turned round.
  ncclComm_t part = nullptr;
  CHECK_NCCL(ncclCommSplit(at.comm, at.rank % 2, -at.rank, &part, nullptr));
  int rank = -1, ranks = 0;
  CHECK_NCCL(ncclCommUserRank(part, &rank));
  CHECK_NCCL(ncclCommCount(part, &ranks));
  const int want_ranks = (at.ranks + 1 - at.rank % 2) / 2;
  if (ranks != want_ranks || rank != want_ranks - 1 - at.rank / 2) {
    std::fprintf(stderr, "rank %d became %d of %d\n", at.rank, rank, ranks);
    std::exit(1);
  }
  DeviceArray<int> value(1);
  value.Put({at.rank});
  CHECK_NCCL(ncclAllReduce(value.data, value.data, 1, ncclInt32, ncclSum, part, at.stream));
  int want = 0;
  for (int i = at.rank % 2; i < at.ranks; i += 2) want += i;
  Expect<int>(at, "sum within a split", value.Get(at.stream), [&](size_t) { return want; });
  CHECK_NCCL(ncclCommDestroy(part));
  CHECK_NCCL(ncclCommSplit(at.comm, at.rank == 0 ? 0 : -1, 0, &part, nullptr));
  if ((part != nullptr) != (at.rank == 0)) std::exit(1);
  if (part != nullptr) CHECK_NCCL(ncclCommDestroy(part));
}

void Refusals(const Rank& at) {
  auto refused = [](ncclResult_t got, ncclResult_t want, const char* what) {
    if (got == want && std::strlen(ncclGetLastError(nullptr)) > 0) return;
    std::fprintf(stderr, "%s: %d, not %d\n", what, got, want);
    std::exit(1);
  };
  DeviceArray<int> value(1);
  refused(ncclAllReduce(value.data, nullptr, 1, ncclInt32, ncclSum, at.comm, at.stream),
          ncclInvalidArgument, "null buffer");
  refused(ncclAllReduce(value.data, value.data, 1, ncclInt32, static_cast<ncclRedOp_t>(77), at.comm,
                        at.stream),
          ncclInvalidArgument, "no operation");
  refused(ncclAllReduce(value.data, value.data, 1, static_cast<ncclDataType_t>(77), ncclSum,
                        at.comm, at.stream),
          ncclInvalidArgument, "no type");
  refused(ncclBroadcast(value.data, value.data, 1, ncclInt32, at.ranks, at.comm, at.stream),
          ncclInvalidArgument, "no root");
  refused(ncclAllReduce(value.data, value.data, 1, ncclInt32, ncclSum, nullptr, at.stream),
          ncclInvalidArgument, "no communicator");
  refused(ncclGroupEnd(), ncclInvalidUsage, "no group");
  ncclUniqueId nonsense = {};
  ncclComm_t made = nullptr;
  refused(ncclCommInitRank(&made, 2, nonsense, 0), ncclInvalidArgument, "no id");
  refused(ncclCommInitRank(&made, 2, nonsense, 2), ncclInvalidArgument, "no rank");
}

// Ahead of all others, so that no kernel is there yet: what is refused leaves the capture whole.
void Captures(const Rank& at) {
  float* data = nullptr;
  CHECK_CUDA(cudaMalloc(&data, sizeof(float)));
  t_allocated.push_back(data);
  cudaGraph_t graph = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(at.stream, cudaStreamCaptureModeRelaxed));
  if (ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, at.comm, at.stream) != ncclInvalidUsage) {
    std::fprintf(stderr, "a collective in a capture is not refused\n");
    std::exit(1);
  }
  CHECK_CUDA(cudaStreamEndCapture(at.stream, &graph));
  CHECK_CUDA(cudaGraphDestroy(graph));
}

void Run(int rank, int ranks, int device, const ncclUniqueId& id) {
  CHECK_CUDA(cudaSetDevice(device));
  CHECK_CUDA(cudaFree(nullptr));
  Rank at = {rank, ranks, nullptr, nullptr};
  CHECK_CUDA(cudaStreamCreateWithFlags(&at.stream, cudaStreamNonBlocking));
  CHECK_NCCL(ncclCommInitRank(&at.comm, ranks, id, rank));
  Captures(at);
  Reductions<int8_t>(at, ncclInt8, true, 1000);
  Reductions<uint8_t>(at, ncclUint8, true, 1000);
  Reductions<int32_t>(at, ncclInt32, true, 1000);
  Reductions<uint32_t>(at, ncclUint32, true, 1);
  Reductions<int64_t>(at, ncclInt64, true, 1000);
  Reductions<uint64_t>(at, ncclUint64, true, 777);
  Reductions<__half>(at, ncclFloat16, false, 1000);
  Reductions<__nv_bfloat16>(at, ncclBfloat16, false, 1000);
  Reductions<double>(at, ncclFloat64, false, 1000);
  // Five chunks and a rest.
  Reductions<float>(at, ncclFloat32, false, (5u << 19) + 13);
  Movements(at, 1000);
  Movements(at, (3u << 19) + 5);
  Transfers(at, 1000);
  Transfers(at, (7u << 16) + 3);
  Streams(at);
  Factors(at);
  Split(at);
  Refusals(at);
  ncclResult_t error = ncclInternalError;
  CHECK_NCCL(ncclCommGetAsyncError(at.comm, &error));
  if (error != ncclSuccess) std::exit(1);
  CHECK_NCCL(ncclCommFinalize(at.comm));
  CHECK_NCCL(ncclCommDestroy(at.comm));
  for (void* data : t_allocated) CHECK_CUDA(cudaFree(data));
  CHECK_CUDA(cudaStreamDestroy(at.stream));
}

int main(int argc, char** argv) {
  if ((argc == 3 || argc == 4) && std::string(argv[1]) == "threads") {
    const int ranks = std::atoi(argv[2]);
    const int devices = argc == 4 ? std::atoi(argv[3]) : 1;
    ncclUniqueId id;
    CHECK_NCCL(ncclGetUniqueId(&id));
    std::vector<std::thread> threads;
    for (int i = 0; i < ranks; ++i) threads.emplace_back(Run, i, ranks, i % devices, id);
    for (std::thread& thread : threads) thread.join();
  } else if (argc == 5 && std::string(argv[1]) == "rank") {
    const int rank = std::atoi(argv[2]);
    Run(rank, std::atoi(argv[3]), 0, Meet(rank, argv[4]));
  } else {
    std::fprintf(stderr, "usage: %s threads RANKS [DEVICES] | rank RANK RANKS FILE\n", argv[0]);
    return 2;
  }
  std::printf("PASS\n");
}
