// SPDX-License-Identifier: Apache-2.0
// The C entries, in both precisions.
#include <cstddef>

#include "client-shim/cufftw/plan.h"

#define FFTW_ENTRY extern "C" __attribute__((visibility("default")))

using farcall::cufftw::DestroyPlan;
using farcall::cufftw::Execute;
using farcall::cufftw::Form;
using farcall::cufftw::MakePlan;
using farcall::cufftw::ManyShape;
using farcall::cufftw::Plan;
using farcall::cufftw::Shape;

namespace farcall_fftw {
constexpr bool kWide = true;
using Real = double;
#define FFTW(name) fftw_##name
#define FFTW_NAME(name) "fftw_" #name
#include "client-shim/cufftw/entries.inc"
#undef FFTW
#undef FFTW_NAME
}  // namespace farcall_fftw

namespace farcall_fftwf {
constexpr bool kWide = false;
using Real = float;
#define FFTW(name) fftwf_##name
#define FFTW_NAME(name) "fftwf_" #name
#include "client-shim/cufftw/entries.inc"
#undef FFTW
#undef FFTW_NAME
}  // namespace farcall_fftwf
