// SPDX-License-Identifier: Apache-2.0
// Prints from device code, then lets a device assertion fail on purpose.
//
//   nvcc printf_assert.cu -o printf_assert && ./printf_assert
//
// Expect one PASS line. The device's output must arrive by the time of the synchronising call, each
// line once and whole; lines of different threads may come in any order. The assertion must name
// its place, its thread and its condition, be reported as cudaErrorAssert, and again by every later
// call: such an error ends the context.

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <string>
#include <vector>

#include "check.cuh"

constexpr int kBlocks = 3, kThreads = 5;

__global__ void Greet() {
  const int id = blockIdx.x * blockDim.x + threadIdx.x;
  printf("thread %d of block %d: %s %.3f %llx %c\n", static_cast<int>(threadIdx.x),
         static_cast<int>(blockIdx.x), "text", id * 0.125, 0x123456789abcdefull + id, 'a' + id);
}

__global__ void CheckBelow(int limit) {
  assert(static_cast<int>(threadIdx.x) < limit);
}

// Runs `work` with a stream's file descriptor pointing into a temporary file; returns what came
// out.
template <typename Work>
std::string Capture(std::FILE* stream, Work work) {
  std::FILE* file = std::tmpfile();
  if (!file) example::Fail("cannot create a temporary file for the device's output");
  std::fflush(stream);
  const int kept = dup(fileno(stream));
  if (kept < 0 || dup2(fileno(file), fileno(stream)) < 0)
    example::Fail("cannot redirect the output");
  work();
  std::fflush(stream);
  dup2(kept, fileno(stream));
  close(kept);

  std::string text;
  std::rewind(file);
  for (int c; (c = std::fgetc(file)) != EOF;) text.push_back(static_cast<char>(c));
  std::fclose(file);
  return text;
}

std::string CaptureGreetings() {
  cudaError_t launched = cudaSuccess, ran = cudaSuccess;
  const std::string text = Capture(stdout, [&] {
    Greet<<<kBlocks, kThreads>>>();
    launched = cudaGetLastError();
    ran = cudaDeviceSynchronize();
  });
  CUDA_CHECK(launched);
  CUDA_CHECK(ran);
  return text;
}

std::vector<std::string> SortedLines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t start = 0, end; start < text.size(); start = end + 1) {
    end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::string ExpectedText() {
  std::string text;
  for (int id = 0; id < kBlocks * kThreads; ++id) {
    char line[128];
    std::snprintf(line, sizeof(line), "thread %d of block %d: %s %.3f %llx %c\n", id % kThreads,
                  id / kThreads, "text", id * 0.125, 0x123456789abcdefull + id, 'a' + id);
    text += line;
  }
  return text;
}

int main() {
  example::name = "printf_assert";
  const std::vector<std::string> lines = SortedLines(CaptureGreetings());
  const std::vector<std::string> expected = SortedLines(ExpectedText());
  if (lines.size() != expected.size()) {
    example::Fail("%zu lines came from the device, %zu were printed", lines.size(),
                  expected.size());
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] != expected[i]) {
      example::Fail("the device printed \"%s\", the host \"%s\"", lines[i].c_str(),
                    expected[i].c_str());
    }
  }

  CheckBelow<<<1, 4>>>(4);  // holds for every thread
  LAUNCH_CHECK();
  CUDA_CHECK(cudaDeviceSynchronize());
  cudaError_t launched = cudaSuccess, first = cudaSuccess;
  const std::string said = Capture(stderr, [&] {  // where CUDA writes it
    CheckBelow<<<1, 4>>>(3);                      // thread 3 fails
    launched = cudaGetLastError();
    first = cudaDeviceSynchronize();
  });
  CUDA_CHECK(launched);
  void* bytes = nullptr;
  const cudaError_t later = cudaMalloc(&bytes, 16);
  if (first != cudaErrorAssert || later != cudaErrorAssert) {
    example::Fail("a failed assertion gave %s, then %s; both should be cudaErrorAssert",
                  cudaGetErrorName(first), cudaGetErrorName(later));
  }
  for (const char* part : {"printf_assert.cu", "CheckBelow", "block: [0,0,0], thread: [3,0,0]",
                           "Assertion `static_cast<int>(threadIdx.x) < limit` failed."})
    if (said.find(part) == std::string::npos)
      example::Fail("the assertion's message lacks \"%s\": \"%s\"", part, said.c_str());
  return example::Pass("%zu lines as printed; a failed assertion is cudaErrorAssert and stays so",
                       lines.size());
}
