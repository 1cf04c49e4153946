// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cufftw/plan.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <climits>
#include <cstddef>

#include "settings/log_line.h"

extern "C" {
#include "client-shim/refusals/refuse.h"
}

namespace farcall::cufftw {

namespace {

constexpr size_t kMaxRank = 3;
constexpr int64_t kMaxElements = int64_t{1} << 40;

// cuFFT beside this library, and the driver that it has loaded by the time there is a plan.
struct Api {
  int (*plan_many)(int* plan, int rank, int* n, int* inembed, int istride, int idist, int* onembed,
                   int ostride, int odist, int type, int batch);
  int (*exec_complex)(int plan, void* in, void* out, int sign);
  int (*exec_wide_complex)(int plan, void* in, void* out, int sign);
  int (*exec_from_real)(int plan, void* in, void* out);
  int (*exec_wide_from_real)(int plan, void* in, void* out);
  int (*exec_to_real)(int plan, void* in, void* out);
  int (*exec_wide_to_real)(int plan, void* in, void* out);
  int (*destroy)(int plan);
  void* cufft;
};

struct ErrorHead {
  ErrorHead() { FarcallLogHead(text, sizeof(text), "error", "libcufftw"); }
  char text[kFarcallLogHeadBytes];
};

template <typename Function>
void Find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
}

const Api& Cufft() {
  static const Api api = [] {
    Api found{};
    found.cufft = dlopen(FARCALL_CUFFT_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (found.cufft == nullptr) {
      const char* why = dlerror();
      fprintf(stderr, "%s%s\n", ErrorHead().text, why);
      return found;
    }
    Find(found.cufft, "cufftPlanMany", &found.plan_many);
    Find(found.cufft, "cufftExecC2C", &found.exec_complex);
    Find(found.cufft, "cufftExecZ2Z", &found.exec_wide_complex);
    Find(found.cufft, "cufftExecR2C", &found.exec_from_real);
    Find(found.cufft, "cufftExecD2Z", &found.exec_wide_from_real);
    Find(found.cufft, "cufftExecC2R", &found.exec_to_real);
    Find(found.cufft, "cufftExecZ2D", &found.exec_wide_to_real);
    Find(found.cufft, "cufftDestroy", &found.destroy);
    return found;
  }();
  return api;
}

constexpr int kNotInitialized = 3;  // CUDA's, without its headers

// Of the libcuda that the program has loaded.
struct Driver {
  bool is_whole() const {
    return get_current != nullptr && push != nullptr && pop != nullptr && allocate != nullptr &&
           free != nullptr && up != nullptr && down != nullptr;
  }
  int (*get_current)(void** context);
  int (*push)(void* context);
  int (*pop)(void** context);
  int (*allocate)(uint64_t* address, size_t bytes);
  int (*free)(uint64_t address);
  int (*up)(uint64_t to, const void* from, size_t bytes);
  int (*down)(void* to, uint64_t from, size_t bytes);
};

const Driver& TheDriver() {
  static const Driver driver = [] {
    Driver found{};
    void* libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (libcuda == nullptr) return found;
    Find(libcuda, "cuCtxGetCurrent", &found.get_current);
    Find(libcuda, "cuCtxPushCurrent_v2", &found.push);
    Find(libcuda, "cuCtxPopCurrent_v2", &found.pop);
    Find(libcuda, "cuMemAlloc_v2", &found.allocate);
    Find(libcuda, "cuMemFree_v2", &found.free);
    Find(libcuda, "cuMemcpyHtoD_v2", &found.up);
    Find(libcuda, "cuMemcpyDtoH_v2", &found.down);
    return found;
  }();
  return driver;
}

int64_t Extent(const Shape& shape, size_t dim, bool is_real) {
  const int64_t n = shape.dims[dim].n;
  const bool halved = shape.form != Form::kComplex && !is_real && dim + 1 == shape.dims.size();
  return halved ? n / 2 + 1 : n;
}

bool IsReal(const Shape& shape, bool is_input) {
  return shape.form == (is_input ? Form::kFromReal : Form::kToReal);
}

// One side of a shape as cuFFT is told of it.
struct Layout {
  int embed[kMaxRank] = {};
  int stride = 1;
  int dist = 1;
  size_t element_bytes = 0;
  size_t bytes = 0;       // from the first element to the last
  bool has_gaps = false;  // there is more in them than elements
};

bool FitsInt(int64_t value) {
  return value > 0 && value <= INT_MAX;
}

// False: it is no such layout.
bool LayOut(const Shape& shape, bool is_input, Layout* layout) {
  const bool is_real = IsReal(shape, is_input);
  const auto step = [is_input](const Dim& dim) { return is_input ? dim.in : dim.out; };
  const size_t rank = shape.dims.size();
  int64_t last = 0, elements = 1;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t stride = step(shape.dims[i]);
    if (!FitsInt(shape.dims[i].n) || !FitsInt(stride)) return false;
    last += (Extent(shape, i, is_real) - 1) * stride;
    elements *= Extent(shape, i, is_real);
    layout->embed[i] = static_cast<int>(shape.dims[i].n);
    if (i == 0) continue;
    const int64_t above = step(shape.dims[i - 1]);
    if (above % stride != 0 || !FitsInt(above / stride)) return false;
    layout->embed[i] = static_cast<int>(above / stride);
  }
  layout->stride = static_cast<int>(step(shape.dims[rank - 1]));
  for (const Dim& batch : shape.batches) {
    if (!FitsInt(batch.n) || step(batch) < 0 || step(batch) > INT_MAX) return false;
    last += (batch.n - 1) * step(batch);
    elements *= batch.n;
  }
  if (!shape.batches.empty()) layout->dist = static_cast<int>(step(shape.batches.back()));
  if (last >= kMaxElements || elements > kMaxElements) return false;
  layout->element_bytes = (shape.wide ? 8 : 4) * (is_real ? 1 : 2);
  layout->bytes = static_cast<size_t>(last + 1) * layout->element_bytes;
  layout->has_gaps = last + 1 != elements;
  return true;
}

int TypeOf(const Shape& shape) {
  const int wide = shape.wide ? 0x40 : 0;
  switch (shape.form) {
    case Form::kFromReal:
      return 0x2a | wide;
    case Form::kToReal:
      return 0x2c | wide;
    default:
      return 0x29 | wide;
  }
}

}  // namespace

struct Plan {
  Shape shape;
  Layout from, to;
  void* in = nullptr;
  void* out = nullptr;
  int plan = 0;
  void* context = nullptr;
  uint64_t source = 0, target = 0;  // one address if it works in place
};

namespace {

size_t SourceBytes(const Plan& plan) {
  return plan.in == plan.out ? std::max(plan.from.bytes, plan.to.bytes) : plan.from.bytes;
}

int Transform(const Plan& plan, uint64_t source, uint64_t target) {
  const Api& api = Cufft();
  auto* in = reinterpret_cast<void*>(source);
  auto* out = reinterpret_cast<void*>(target);
  const bool wide = plan.shape.wide;
  switch (plan.shape.form) {
    case Form::kFromReal:
      return (wide ? api.exec_wide_from_real : api.exec_from_real)(plan.plan, in, out);
    case Form::kToReal:
      return (wide ? api.exec_wide_to_real : api.exec_to_real)(plan.plan, in, out);
    default:
      return (wide ? api.exec_wide_complex : api.exec_complex)(plan.plan, in, out, plan.shape.sign);
  }
}

// cuFFT has one dimension of batches: those outside it are run one by one.
int TransformFrom(const Plan& plan, size_t batch, uint64_t source, uint64_t target) {
  const std::vector<Dim>& batches = plan.shape.batches;
  if (batch + 1 >= batches.size()) return Transform(plan, source, target);
  for (int64_t i = 0; i < batches[batch].n; ++i) {
    const int status =
        TransformFrom(plan, batch + 1, source + i * batches[batch].in * plan.from.element_bytes,
                      target + i * batches[batch].out * plan.to.element_bytes);
    if (status != 0) return status;
  }
  return 0;
}

int Run(const Plan& plan, void* in, void* out) {
  const Driver& driver = TheDriver();
  int status = driver.up(plan.source, in, SourceBytes(plan));
  // What lies between its elements stays as it is.
  if (status == 0 && plan.target != plan.source && plan.to.has_gaps)
    status = driver.up(plan.target, out, plan.to.bytes);
  if (status == 0) status = TransformFrom(plan, 0, plan.source, plan.target);
  const size_t bytes = plan.target == plan.source ? SourceBytes(plan) : plan.to.bytes;
  return status != 0 ? status : driver.down(out, plan.target, bytes);
}

// Whether it has its room.
bool Prepare(Plan* plan) {
  const Shape& shape = plan->shape;
  int n[kMaxRank] = {};
  for (size_t i = 0; i < shape.dims.size(); ++i) n[i] = static_cast<int>(shape.dims[i].n);
  const int batch = shape.batches.empty() ? 1 : static_cast<int>(shape.batches.back().n);
  if (Cufft().plan_many == nullptr ||
      Cufft().plan_many(&plan->plan, static_cast<int>(shape.dims.size()), n, plan->from.embed,
                        plan->from.stride, std::max(plan->from.dist, 1), plan->to.embed,
                        plan->to.stride, std::max(plan->to.dist, 1), TypeOf(shape), batch) != 0) {
    plan->plan = 0;
    return false;
  }
  const Driver& driver = TheDriver();
  if (!driver.is_whole() || driver.get_current(&plan->context) != 0 ||
      driver.allocate(&plan->source, SourceBytes(*plan)) != 0)
    return false;
  if (plan->in == plan->out) {
    plan->target = plan->source;
    return true;
  }
  return driver.allocate(&plan->target, plan->to.bytes) == 0;
}

}  // namespace

Shape ManyShape(Form form, bool wide, int sign, int rank, const int* n, int batch, Side in,
                Side out, bool in_place) {
  Shape shape{form, wide, sign, {}, {}};
  if (rank < 1 || rank > static_cast<int>(kMaxRank) || n == nullptr) return shape;
  for (int i = 0; i < rank; ++i) shape.dims.push_back({n[i], in.stride, out.stride});
  const auto row = [&](int dim, const Side& side, bool is_input) -> int64_t {
    if (side.embed != nullptr) return side.embed[dim];
    const bool is_real = IsReal(shape, is_input);
    const int64_t elements = Extent(shape, static_cast<size_t>(dim), is_real);
    // Reals that make room for the complex numbers that they become, or were.
    return is_real && in_place && dim + 1 == rank ? 2 * (elements / 2 + 1) : elements;
  };
  for (int i = rank - 1; i > 0; --i) {
    shape.dims[i - 1].in = shape.dims[i].in * row(i, in, true);
    shape.dims[i - 1].out = shape.dims[i].out * row(i, out, false);
  }
  if (batch != 1) shape.batches.push_back({batch, in.dist, out.dist});
  return shape;
}

Plan* MakePlan(const char* name, const Shape& shape, void* in, void* out) {
  static int said = 0;
  auto* plan = new Plan{shape, {}, {}, in, out};
  const bool has_words = !shape.dims.empty() && shape.dims.size() <= kMaxRank &&
                         LayOut(shape, true, &plan->from) && LayOut(shape, false, &plan->to);
  if (!has_words) Refuse("libcufftw", name, &said);
  if (has_words && Prepare(plan)) return plan;
  DestroyPlan(plan);
  return nullptr;
}

void Execute(const char* name, const Plan* plan, void* in, void* out) {
  if (plan == nullptr) RefuseForGood("libcufftw", name);
  const Driver& driver = TheDriver();
  int status = driver.is_whole() ? driver.push(plan->context) : kNotInitialized;
  if (status == 0) {
    status = Run(*plan, in == nullptr ? plan->in : in, out == nullptr ? plan->out : out);
    void* context = nullptr;
    driver.pop(&context);
  }
  if (status == 0) return;
  fprintf(stderr, "%s%s failed with %d and cannot say so: the program ends\n", ErrorHead().text,
          name, status);
  abort();
}

void DestroyPlan(Plan* plan) {
  if (plan == nullptr) return;
  const Driver driver = TheDriver();
  if (plan->plan != 0 && Cufft().destroy != nullptr) Cufft().destroy(plan->plan);
  if (plan->source != 0 && driver.is_whole() && driver.push(plan->context) == 0) {
    driver.free(plan->source);
    if (plan->target != 0 && plan->target != plan->source) driver.free(plan->target);
    driver.pop(&plan->context);
  }
  delete plan;
}

}  // namespace farcall::cufftw
