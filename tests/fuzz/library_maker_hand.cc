// SPDX-License-Identifier: Apache-2.0
// Records of calls that no spec describes (server/library/*.cc, server/toolchain/*.cc read them).
#include "tests/fuzz/library_maker_hand.h"

#include <cstring>
#include <string_view>

#include "generated/proto/cudnn_call.h"
#include "generated/proto/cufft_call.h"
#include "generated/proto/curand_call.h"
#include "generated/proto/cusolver_call.h"
#include "generated/proto/nvjitlink_call.h"
#include "generated/proto/nvrtc_call.h"
#include "proto/library/cudnn_backend.h"

namespace farcall::fuzz {

namespace {

// ---- cuDNN's backend
constexpr uint16_t kDescriptor = cudnn::kKind_cudnnBackendDescriptor_t;
constexpr uint16_t kHandle = cudnn::kKind_cudnnHandle_t;

void Elements(Maker& make, int attribute, int type, int64_t count, bool is_variant, bool is_next) {
  const bool is_data = is_variant && attribute == thin::kBackendDataPointers;
  const bool are_names = type == thin::kBackendTypeHandle || type == thin::kBackendTypeDescriptor;
  if (!is_data && !are_names)
    return make.In(static_cast<uint64_t>(count) * thin::BackendElementBytes(type));
  for (int64_t i = 0; i < count; ++i) {
    if (is_data) {
      make.AnyScalar();
    } else {
      if (is_next && type == thin::kBackendTypeDescriptor) make.body().Put<uint32_t>(0);
      make.Object({type == thin::kBackendTypeHandle ? kHandle : kDescriptor}, true);
    }
  }
}

void Step(Maker& make, bool is_variant, bool is_next = false) {
  constexpr int kTypes[] = {
      thin::kBackendTypeHandle, thin::kBackendTypeDescriptor, 2, 3, 5, 6, 1, 4, 24, 26, 63, 64};
  const uint8_t how = make.Choice();
  const int attribute = is_variant && how % 2 == 0 ? thin::kBackendDataPointers : how * 10;
  const int type = kTypes[make.Choice() % std::size(kTypes)];
  const uint8_t much = make.Choice();
  const int64_t count = much < 250 ? much % 6 : much == 250 ? -1 : int64_t{1} << (much - 236);
  make.body().Put<int32_t>(attribute);
  make.body().Put<int32_t>(is_variant && how % 2 == 0 && how < 200 ? 6 : type);
  make.body().Put<int64_t>(count);
  Elements(make, attribute, type, count > 64 ? 0 : count, is_variant, is_next);
}

void Steps(Maker& make, bool is_variant, bool is_next = false) {
  const uint32_t count = make.Choice() % 4;
  make.body().Put<uint32_t>(count);
  for (uint32_t i = 0; i < count; ++i) Step(make, is_variant, is_next);
}

void Question(Maker& make) {
  constexpr int kTypes[] = {15, 3, 6, 2, 24, 26, 63, 64, 0, 1};
  const uint8_t how = make.Choice();
  const uint32_t form = how % 3;
  const int type = form == 2 && how < 240 ? 15 : kTypes[make.Choice() % std::size(kTypes)];
  const uint8_t much = make.Choice();
  const int64_t wanted = much < 240 ? much % 8 : static_cast<int64_t>(make.Number());
  make.body().Put<int32_t>(how >= 250 ? 900 : how);
  make.body().Put<int32_t>(type);
  make.body().Put<int64_t>(wanted);
  make.body().Put<uint32_t>(form);
  if (form != thin::kBackendObjects) return;
  const uint32_t made = wanted < 0 || wanted > 8 ? 0 : static_cast<uint32_t>(wanted);
  make.body().Put<uint32_t>(made);
  for (uint32_t i = 0; i < made; ++i) {
    make.body().Put<int32_t>(make.Choice());
    make.New(kDescriptor);
  }
}

void CreateDescriptor(Maker& make) {
  make.body().Put<int32_t>(make.Choice());
}
void SetAttribute(Maker& make) {
  make.body().Put<int32_t>(make.Choice());
  Step(make, false);
}
void Finalize(Maker& make) {
  make.New(kDescriptor);
  make.body().Put<int32_t>(make.Choice());
  Steps(make, false);
}
void GetAttribute(Maker& make) {
  make.Object({kDescriptor}, false);
  Question(make);
}
void Execute(Maker& make) {
  make.Object({kHandle}, false);
  make.Object({kDescriptor}, false);
  Steps(make, true);
}
void Initialize(Maker& make) {
  const uint64_t name = make.NewName(kDescriptor);
  make.body().Put<uint64_t>(name);
  make.body().Put<int32_t>(make.Choice());
  Steps(make, false);
  const uint32_t nexts = make.Choice() % 4;
  make.body().Put<uint32_t>(nexts);
  for (uint32_t i = 0; i < nexts; ++i) {
    const bool finalizes = make.Choice() % 2 == 0;
    make.body().Put<uint32_t>(finalizes ? 1 : 0);
    if (finalizes) {
      make.New(kDescriptor);
      make.body().Put<int32_t>(make.Choice());
      Steps(make, false, true);
    } else {
      make.body().Put<uint64_t>(name);
      Question(make);
    }
  }
}

// ---- cuFFT, cuRAND, cuSOLVER
void JitCallback(Maker& make) {
  make.Object({cufft::kKind_cufftHandle}, false);
  const uint64_t bytes = make.Choice();
  make.body().Put<uint64_t>(bytes);
  make.body().Put<int32_t>(make.Choice() % 8);
  make.Text();
  make.In(bytes);
  make.Addresses(1);
}
void HostGenerator(Maker& make) {
  make.New(LibraryKind(LibraryId::kCurand, 2));
  make.body().Put<int32_t>(make.Choice());
}
void Poisson(Maker& make) {
  make.New(curand::kKind_curandDiscreteDistribution_t);
  make.body().Put<double>(make.Choice());
}
void DestroyPoisson(Maker& make) {
  make.Object({curand::kKind_curandDiscreteDistribution_t}, false);
}
void Vectors(Maker& make) {
  make.body().Put<int32_t>(make.Choice());
}
void Nothing(Maker&) {}
void Extract(Maker& make) {
  make.Object({cusolver::kKind_cusolverRfHandle_t}, false);
}
void BatchSetup(Maker& make) {
  make.Object({cusolver::kKind_cusolverRfHandle_t}, false);
  const int counts[] = {make.Value<int>(), make.Value<int>(), make.Value<int>(), make.Value<int>(),
                        make.Value<int>()};
  const auto bytes = [](int64_t count, uint64_t each) {
    return count < 0 || count > 4096 ? 0 : static_cast<uint64_t>(count) * each;
  };
  const int64_t n = counts[1];
  const auto pattern = [&](int nonzeros) {
    make.In(bytes(n + 1, 4));
    make.In(bytes(nonzeros, 4));
  };
  pattern(counts[2]);
  make.In(bytes(int64_t{counts[0]} * counts[2], 8));
  pattern(counts[3]);
  make.In(bytes(counts[3], 8));
  pattern(counts[4]);
  make.In(bytes(counts[4], 8));
  make.In(bytes(n, 4));
  make.In(bytes(n, 4));
}

// ---- compilers
void Text(Maker& make, std::string_view text) {
  const uint8_t how = make.Choice();
  make.body().Put<uint64_t>(how >= 250 ? 7 : 0);  // in a blob
  if (how < 250) make.body().PutString(text);
}
std::string_view Option(Maker& make) {
  constexpr std::string_view kOptions[] = {"-arch=sm_90",
                                           "--gpu-architecture=compute_75",
                                           "-lto",
                                           "-ptx",
                                           "-I/etc",
                                           "-include=/etc/hosts",
                                           "--options-file=/etc/hosts",
                                           "@/etc/hosts",
                                           "-Xptxas=--options-file=/etc/hosts",
                                           "--pre-include=/etc/hosts",
                                           "-default-device",
                                           "-std=c++17",
                                           "-O3",
                                           ""};
  return kOptions[make.Choice() % std::size(kOptions)];
}
void Compile(Maker& make) {
  // As client-shim/nvrtc/ has it: counts, then texts.
  const uint32_t counts[] = {make.Choice() % 3u, make.Choice() % 3u, make.Choice() % 3u};
  for (uint32_t count : counts) make.body().Put<uint32_t>(make.Choice() >= 254 ? 0xffffffu : count);
  make.body().Put<uint32_t>(make.Choice() % 8);
  Text(make, "extern \"C\" __global__ void f() {}");
  Text(make, "f.cu");
  for (uint32_t i = 0; i < 2 * counts[0]; ++i) Text(make, "header");
  for (uint32_t i = 0; i < counts[1]; ++i) Text(make, Option(make));
  for (uint32_t i = 0; i < counts[2]; ++i) Text(make, "&f");
}
void LinkCreate(Maker& make) {
  const uint32_t count = make.Choice() % 4;
  make.body().Put<uint32_t>(count);
  for (uint32_t i = 0; i < count; ++i) Text(make, Option(make));
}
void LinkComplete(Maker& make) {
  const uint32_t options = make.Choice() % 4, inputs = make.Choice() % 3;
  make.body().Put<uint32_t>(options);
  make.body().Put<uint32_t>(make.Choice() >= 254 ? 0xffffffu : inputs);
  for (uint32_t i = 0; i < options; ++i) Text(make, Option(make));
  for (uint32_t i = 0; i < inputs; ++i) {
    make.body().Put<uint32_t>(make.Choice() % 12);
    Text(make, make.Choice() % 4 == 0 ? "!<thin>\n/etc/hosts/" : ".version 8.0\n");
    Text(make, "input");
  }
}

template <typename Function>
constexpr MakerRow Row(LibraryId library, const char* name, Function function, void (*make)(Maker&),
                       uint16_t makes = 0) {
  return {name, library, static_cast<uint16_t>(function), makes, make};
}

using cudnn::Function;
constexpr MakerRow kRows[] = {
    Row(LibraryId::kCudnn, "cudnnBackendFinalize", Function::cudnnBackendFinalize, Finalize,
        kDescriptor),
    Row(LibraryId::kCudnn, "cudnnBackendCreateDescriptor", Function::cudnnBackendCreateDescriptor,
        CreateDescriptor),
    Row(LibraryId::kCudnn, "cudnnBackendSetAttribute", Function::cudnnBackendSetAttribute,
        SetAttribute),
    Row(LibraryId::kCudnn, "cudnnBackendGetAttribute", Function::cudnnBackendGetAttribute,
        GetAttribute),
    Row(LibraryId::kCudnn, "cudnnBackendExecute", Function::cudnnBackendExecute, Execute),
    Row(LibraryId::kCudnn, "cudnnBackendInitialize", Function::cudnnBackendInitialize, Initialize),
    Row(LibraryId::kCufft, "cufftXtSetJITCallback", cufft::Function::cufftXtSetJITCallback,
        JitCallback),
    Row(LibraryId::kCurand, "curandCreateGeneratorHost",
        curand::Function::curandCreateGeneratorHost, HostGenerator,
        LibraryKind(LibraryId::kCurand, 2)),
    Row(LibraryId::kCurand, "curandCreatePoissonDistribution",
        curand::Function::curandCreatePoissonDistribution, Poisson,
        curand::kKind_curandDiscreteDistribution_t),
    Row(LibraryId::kCurand, "curandDestroyDistribution",
        curand::Function::curandDestroyDistribution, DestroyPoisson),
    Row(LibraryId::kCurand, "curandGetDirectionVectors32",
        curand::Function::curandGetDirectionVectors32, Vectors),
    Row(LibraryId::kCurand, "curandGetScrambleConstants64",
        curand::Function::curandGetScrambleConstants64, Nothing),
    Row(LibraryId::kCusolver, "cusolverRfExtractBundledFactorsHost",
        cusolver::Function::cusolverRfExtractBundledFactorsHost, Extract),
    Row(LibraryId::kCusolver, "cusolverRfBatchSetupHost",
        cusolver::Function::cusolverRfBatchSetupHost, BatchSetup),
    Row(LibraryId::kNvrtc, "nvrtcCompileProgram", nvrtc::Function::nvrtcCompileProgram, Compile),
    Row(LibraryId::kNvrtc, "nvrtcGetSupportedArchs", nvrtc::Function::nvrtcGetSupportedArchs,
        Nothing),
    Row(LibraryId::kNvjitlink, "nvJitLinkCreate", nvjitlink::Function::nvJitLinkCreate, LinkCreate),
    Row(LibraryId::kNvjitlink, "nvJitLinkComplete", nvjitlink::Function::nvJitLinkComplete,
        LinkComplete),
};

}  // namespace

std::span<const MakerRow> MakersByHand() {
  return kRows;
}

}  // namespace farcall::fuzz
