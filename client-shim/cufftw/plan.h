// SPDX-License-Identifier: Apache-2.0
// FFTW's plans over host memory: a plan of cuFFT's and room on the device. Executing one copies the
// input there, transforms it and copies the result back: one wait.
#pragma once

#include <cstdint>
#include <vector>

namespace farcall::cufftw {

enum class Form { kComplex, kFromReal, kToReal };

// One dimension: its size, and how far apart neighbours lie, in elements of either side.
struct Dim {
  int64_t n, in, out;
};

struct Shape {
  Form form = Form::kComplex;
  bool wide = false;  // doubles
  int sign = -1;
  std::vector<Dim> dims;     // outermost first
  std::vector<Dim> batches;  // likewise
};

// How FFTW's planners for several transforms say it; null embeds: rows without gaps, but for those
// of reals that are transformed in place.
struct Side {
  const int* embed = nullptr;
  int stride = 1;
  int dist = 0;
};
Shape ManyShape(Form form, bool wide, int sign, int rank, const int* n, int batch, Side in,
                Side out, bool in_place);

struct Plan;

// Null: cuFFT makes none. A shape that it has no words for is said once, by `name`.
Plan* MakePlan(const char* name, const Shape& shape, void* in, void* out);
// Of the arrays of its making, if these are null. It cannot fail: what goes wrong ends the program
// with a line.
void Execute(const char* name, const Plan* plan, void* in = nullptr, void* out = nullptr);
void DestroyPlan(Plan* plan);

}  // namespace farcall::cufftw
