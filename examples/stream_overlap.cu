// SPDX-License-Identifier: Apache-2.0
// Overlaps copies and kernels on several streams, tied together by events.
//
//   nvcc stream_overlap.cu -o stream_overlap && ./stream_overlap
//
// Expect one PASS line. Part one: each stream copies its slice in, works on it and copies it out
// (pinned memory); unsigned integers, so values must equal the host's exactly. Part two: a relay
// runs over the streams, each stage waiting for the event of the stage before. A stage computes 3 *
// x + stage, which gives another result in any other order: the value proves the order.

#include <vector>

#include "check.cuh"

constexpr int kStreams = 4, kSlice = 1 << 17, kRounds = 16, kStages = 24;

__host__ __device__ inline unsigned Mix(unsigned value) {
  for (int round = 0; round < kRounds; ++round) value = (value ^ (value >> 15)) * 0x2C1B3C6Du + 1u;
  return value;
}

__global__ void MixAll(unsigned* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = Mix(values[i]);
}

__global__ void RunStage(unsigned* baton, unsigned stage) {
  *baton = *baton * 3u + stage;
}

struct Lane {
  cudaStream_t stream;
  cudaEvent_t begin, end;
};

// Fills, works on and checks one slice per stream; returns the longest time of a lane.
float RunSlices(std::vector<Lane>& lanes) {
  const int count = kStreams * kSlice;
  unsigned *host = nullptr, *device = nullptr;
  CUDA_CHECK(cudaMallocHost(&host, count * sizeof(unsigned)));
  CUDA_CHECK(cudaMalloc(&device, count * sizeof(unsigned)));
  for (int i = 0; i < count; ++i) host[i] = static_cast<unsigned>(i) * 2654435761u;

  const size_t bytes = kSlice * sizeof(unsigned);
  for (int i = 0; i < kStreams; ++i) {
    unsigned *from = host + i * kSlice, *to = device + i * kSlice;
    Lane& lane = lanes[i];
    CUDA_CHECK(cudaEventRecord(lane.begin, lane.stream));
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, lane.stream));
    MixAll<<<example::DivideUp(kSlice, 256), 256, 0, lane.stream>>>(to, kSlice);
    LAUNCH_CHECK();
    CUDA_CHECK(cudaMemcpyAsync(from, to, bytes, cudaMemcpyDeviceToHost, lane.stream));
    CUDA_CHECK(cudaEventRecord(lane.end, lane.stream));
  }

  float longest = 0;
  for (int i = 0; i < kStreams; ++i) {
    CUDA_CHECK(cudaEventSynchronize(lanes[i].end));
    CUDA_CHECK(cudaEventQuery(lanes[i].begin));  // recorded before `end` on the same stream
    float milliseconds = -1;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, lanes[i].begin, lanes[i].end));
    if (!(milliseconds >= 0))
      example::Fail("stream %d: its events are %g ms apart", i, milliseconds);
    if (milliseconds > longest) longest = milliseconds;
    for (int at = i * kSlice; at < (i + 1) * kSlice; ++at) {
      const unsigned expected = Mix(static_cast<unsigned>(at) * 2654435761u);
      if (host[at] != expected)
        example::Fail("stream %d, element %d: %u, the host has %u", i, at, host[at], expected);
    }
  }
  CUDA_CHECK(cudaFreeHost(host));
  CUDA_CHECK(cudaFree(device));
  return longest;
}

unsigned RunRelay(std::vector<Lane>& lanes) {
  unsigned *baton = nullptr, result = 0, expected = 1;
  const unsigned start = 1;
  CUDA_CHECK(cudaMalloc(&baton, sizeof(unsigned)));
  CUDA_CHECK(cudaMemcpy(baton, &start, sizeof(start), cudaMemcpyHostToDevice));
  for (int stage = 0; stage < kStages; ++stage) {
    Lane& lane = lanes[stage % kStreams];
    if (stage > 0)
      CUDA_CHECK(cudaStreamWaitEvent(lane.stream, lanes[(stage - 1) % kStreams].end, 0));
    RunStage<<<1, 1, 0, lane.stream>>>(baton, stage);
    LAUNCH_CHECK();
    CUDA_CHECK(cudaEventRecord(lane.end, lane.stream));
    expected = expected * 3u + stage;
  }
  Lane& last = lanes[(kStages - 1) % kStreams];
  CUDA_CHECK(cudaMemcpyAsync(&result, baton, sizeof(result), cudaMemcpyDeviceToHost, last.stream));
  CUDA_CHECK(cudaStreamSynchronize(last.stream));
  CUDA_CHECK(cudaFree(baton));
  if (result != expected)
    example::Fail("the relay ended with %u, stages in order give %u", result, expected);
  return result;
}

int main() {
  example::name = "stream_overlap";
  std::vector<Lane> lanes(kStreams);
  for (Lane& lane : lanes) {
    CUDA_CHECK(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreate(&lane.begin));
    CUDA_CHECK(cudaEventCreate(&lane.end));
  }
  const float longest = RunSlices(lanes);
  const unsigned baton = RunRelay(lanes);
  for (Lane& lane : lanes) {
    CUDA_CHECK(cudaEventDestroy(lane.begin));
    CUDA_CHECK(cudaEventDestroy(lane.end));
    CUDA_CHECK(cudaStreamDestroy(lane.stream));
  }
  return example::Pass(
      "%d streams of %d values equal to the host's (longest %.2f ms); relay of %d "
      "stages in order (%u)",
      kStreams, kSlice, longest, kStages, baton);
}
