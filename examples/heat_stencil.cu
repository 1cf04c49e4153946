// SPDX-License-Identifier: Apache-2.0
// Lets heat spread over a plate and writes a picture of it.
//
//   nvcc heat_stencil.cu -o heat_stencil && ./heat_stencil [heat.png]
//
// Expect one PASS line and a picture: hot bars and a ring that have begun to blur. The host repeats
// all steps in float. Each step averages, so it passes errors on without growing them and adds at
// most a few roundings (4 half-ulp of the hottest): the bound is steps * 4 * 2^-24 * hottest.

#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "check.cuh"
#include "png.h"

constexpr int kWidth = 320, kHeight = 240, kSteps = 150;
constexpr float kRate = 0.2f;  // below 0.25, where the explicit scheme stays stable
constexpr float kHottest = 100.0f;

__host__ __device__ inline float Step(const float* t, int i) {
  return t[i] + kRate * (t[i - 1] + t[i + 1] + t[i - kWidth] + t[i + kWidth] - 4.0f * t[i]);
}

__global__ void Spread(const float* from, float* to) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= kWidth || y >= kHeight) return;
  const int i = y * kWidth + x;
  const bool edge = x == 0 || y == 0 || x == kWidth - 1 || y == kHeight - 1;
  to[i] = edge ? from[i] : Step(from, i);
}

std::vector<float> HotPlate() {
  std::vector<float> plate(kWidth * kHeight, 0.0f);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const float dx = x - 225.0f, dy = y - 120.0f, radius = std::sqrt(dx * dx + dy * dy);
      const bool ring = radius > 45 && radius < 62;
      const bool bars = x > 30 && x < 140 && y > 40 && y < 200 && (y / 20) % 3 == 0;
      if (ring || bars) plate[y * kWidth + x] = kHottest;
    }
  }
  return plate;
}

std::vector<float> SpreadOnDevice(const std::vector<float>& plate) {
  const size_t bytes = plate.size() * sizeof(float);
  float *from = nullptr, *to = nullptr;
  std::vector<float> result(plate.size());
  CUDA_CHECK(cudaMalloc(&from, bytes));
  CUDA_CHECK(cudaMalloc(&to, bytes));
  CUDA_CHECK(cudaMemcpy(from, plate.data(), bytes, cudaMemcpyHostToDevice));
  const dim3 block(32, 8);
  const dim3 grid(example::DivideUp(kWidth, 32), example::DivideUp(kHeight, 8));
  for (int step = 0; step < kSteps; ++step) {
    Spread<<<grid, block>>>(from, to);
    LAUNCH_CHECK();
    std::swap(from, to);
  }
  CUDA_CHECK(cudaMemcpy(result.data(), from, bytes, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(from));
  CUDA_CHECK(cudaFree(to));
  return result;
}

std::vector<float> SpreadOnHost(std::vector<float> from) {
  std::vector<float> to = from;
  for (int step = 0; step < kSteps; ++step) {
    for (int y = 1; y < kHeight - 1; ++y)
      for (int x = 1; x < kWidth - 1; ++x) to[y * kWidth + x] = Step(from.data(), y * kWidth + x);
    std::swap(from, to);
  }
  return from;
}

// Black, red, yellow, white, from cold to hot.
std::vector<uint8_t> Colours(const std::vector<float>& plate) {
  std::vector<uint8_t> rgb;
  for (float temperature : plate) {
    const float level = 3 * std::fmin(std::fmax(temperature / kHottest, 0.0f), 1.0f);
    for (int channel = 0; channel < 3; ++channel)
      rgb.push_back(static_cast<uint8_t>(255 * std::fmin(std::fmax(level - channel, 0.0f), 1.0f)));
  }
  return rgb;
}

int main(int argc, char** argv) {
  example::name = "heat_stencil";
  const std::string picture = argc > 1 ? argv[1] : "heat.png";
  const std::vector<float> plate = HotPlate();
  const std::vector<float> device = SpreadOnDevice(plate), host = SpreadOnHost(plate);
  const double bound = kSteps * 4.0 * (FLT_EPSILON / 2) * kHottest;
  double worst = 0;
  for (size_t i = 0; i < host.size(); ++i) {
    const double error = std::fabs(static_cast<double>(device[i]) - host[i]);
    if (!(error <= bound)) {
      example::Fail("cell %zu is %.7g, the host has %.7g: off by %.3g, at most %.3g is rounding", i,
                    device[i], host[i], error, bound);
    }
    worst = std::fmax(worst, error);
  }
  if (!example::WritePng(picture, Colours(device), kWidth, kHeight))
    example::Fail("cannot write %s: the folder must exist and be writable", picture.c_str());
  return example::Pass(
      "%d steps on %d x %d cells, largest difference %.2g of %.2g allowed; picture %s", kSteps,
      kWidth, kHeight, worst, bound, picture.c_str());
}
