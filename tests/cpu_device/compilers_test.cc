// SPDX-License-Identifier: Apache-2.0
// NVRTC and nvJitLink as they stand beside the device's libcuda.so.1 (cpu-device/compilers): what
// they hand out for machine code is loaded and run. Real ones are needed, of one major.
#include <nvrtc.h>

#include <cstring>

#include "tests/cpu_device/driver_fixture.h"
#include "toolkit/nvjitlink.h"

namespace farcall::cpu_device {
namespace {

void* Open(const char* file) {
  return dlopen((std::string(FARCALL_DEVICE_DIR "/") + file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

int VersionOf(void* library) {
  int major = 0, minor = 0;
  auto* get = reinterpret_cast<decltype(&::nvrtcVersion)>(dlsym(library, "nvrtcVersion"));
  return get != nullptr && get(&major, &minor) == NVRTC_SUCCESS ? major : 0;
}

// The first of which there is a real one.
void* Nvrtc() {
  static void* const library = [] {
    for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
      void* opened = Open(file);
      if (opened != nullptr && VersionOf(opened) != 0) return opened;
    }
    return static_cast<void*>(nullptr);
  }();
  return library;
}

#define RTC(name) (reinterpret_cast<decltype(&::name)>(dlsym(Nvrtc(), #name)))

class CompilersTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (Nvrtc() == nullptr) GTEST_SKIP() << "no libnvrtc of NVIDIA's is here";
  }
  void TearDown() override {
    if (program_ != nullptr) EXPECT_EQ(RTC(nvrtcDestroyProgram)(&program_), NVRTC_SUCCESS);
    DriverTest::TearDown();
  }

  nvrtcResult Compile(const char* source, std::vector<const char*> options,
                      const char* expression = nullptr) {
    if (program_ != nullptr) RTC(nvrtcDestroyProgram)(&program_);
    EXPECT_EQ(RTC(nvrtcCreateProgram)(&program_, source, "test.cu", 0, nullptr, nullptr),
              NVRTC_SUCCESS);
    if (expression != nullptr)
      EXPECT_EQ(RTC(nvrtcAddNameExpression)(program_, expression), NVRTC_SUCCESS);
    return RTC(nvrtcCompileProgram)(program_, static_cast<int>(options.size()), options.data());
  }

  std::string Cubin() {
    size_t bytes = 0;
    EXPECT_EQ(RTC(nvrtcGetCUBINSize)(program_, &bytes), NVRTC_SUCCESS);
    std::string image(bytes, 0);
    EXPECT_EQ(RTC(nvrtcGetCUBIN)(program_, image.data()), NVRTC_SUCCESS);
    return image;
  }

  std::string Ptx() {
    size_t bytes = 0;
    EXPECT_EQ(RTC(nvrtcGetPTXSize)(program_, &bytes), NVRTC_SUCCESS);
    std::string text(bytes, 0);
    EXPECT_EQ(RTC(nvrtcGetPTX)(program_, text.data()), NVRTC_SUCCESS);
    return text;
  }

  std::string Log() {
    size_t bytes = 0;
    EXPECT_EQ(RTC(nvrtcGetProgramLogSize)(program_, &bytes), NVRTC_SUCCESS);
    std::string log(bytes, 0);
    EXPECT_EQ(RTC(nvrtcGetProgramLog)(program_, log.data()), NVRTC_SUCCESS);
    return log;
  }

  // What `kernel`, which takes an int*, makes of 0 to 63 in a block of 64.
  std::vector<int> Run(const std::string& image, const char* kernel) {
    std::vector<int> values(64);
    for (int i = 0; i < 64; ++i) values[static_cast<size_t>(i)] = i;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_OK(CU(cuModuleLoadData)(&module, image.data()));
    EXPECT_OK(CU(cuModuleGetFunction)(&function, module, kernel));
    CUdeviceptr data = Allocate(256);
    void* params[] = {&data};
    EXPECT_OK(CU(cuMemcpyHtoD_v2)(data, values.data(), 256));
    EXPECT_OK(CU(cuLaunchKernel)(function, 1, 1, 1, 64, 1, 1, 0, nullptr, params, nullptr));
    EXPECT_OK(CU(cuMemcpyDtoH_v2)(values.data(), data, 256));
    return values;
  }

  nvrtcProgram program_ = nullptr;
};

std::vector<int> Expected(int factor, int plus) {
  std::vector<int> values(64);
  for (int i = 0; i < 64; ++i) values[static_cast<size_t>(i)] = factor * i + plus;
  return values;
}

constexpr const char* kTriple =
    "extern \"C\" __global__ void triple(int* data) { data[threadIdx.x] *= 3; }";

TEST_F(CompilersTest, WhatIsCompiledForMachineCodeRuns) {
  for (const std::vector<const char*>& options :
       std::vector<std::vector<const char*>>{{"-arch=sm_90"},
                                             {"--gpu-architecture=sm_90", "-lineinfo"},
                                             {"--gpu-architecture", "sm_90"},
                                             {"-arch=sm_90a", "-default-device"}}) {
    ASSERT_EQ(Compile(kTriple, options), NVRTC_SUCCESS) << Log();
    EXPECT_EQ(Run(Cubin(), "triple"), Expected(3, 0)) << options[0];
    EXPECT_EQ(Cubin(), Ptx());
  }
}

TEST_F(CompilersTest, WhatIsCompiledForAVirtualArchitectureIsTheRealLibrarys) {
  ASSERT_EQ(Compile(kTriple, {"--gpu-architecture=compute_90"}), NVRTC_SUCCESS) << Log();
  EXPECT_EQ(Run(Ptx(), "triple"), Expected(3, 0));
  size_t bytes = 0;
  if (RTC(nvrtcGetCUBINSize)(program_, &bytes) == NVRTC_SUCCESS) EXPECT_EQ(bytes, 0u);
}

TEST_F(CompilersTest, WhatTheCompilerRefusesComesThrough) {
  EXPECT_EQ(Compile(kTriple, {"-arch=sm_11"}), NVRTC_ERROR_INVALID_OPTION);
  EXPECT_NE(Log().find("architecture"), std::string::npos) << Log();
  EXPECT_EQ(Compile("__global__ void k() { undeclared(); }", {"-arch=sm_90"}),
            NVRTC_ERROR_COMPILATION);
  EXPECT_NE(Log().find("undeclared"), std::string::npos) << Log();
  EXPECT_EQ(Compile(kTriple, {nullptr}), NVRTC_ERROR_INVALID_OPTION);
  EXPECT_STREQ(RTC(nvrtcGetErrorString)(NVRTC_ERROR_COMPILATION), "NVRTC_ERROR_COMPILATION");
}

TEST_F(CompilersTest, LoweredNamesAreThoseOfTheImage) {
  const char* source =
      "template <int kFactor> __global__ void scale(int* d) { d[threadIdx.x] *= kFactor; }";
  ASSERT_EQ(Compile(source, {"-arch=sm_90"}, "scale<7>"), NVRTC_SUCCESS) << Log();
  const char* name = nullptr;
  ASSERT_EQ(RTC(nvrtcGetLoweredName)(program_, "scale<7>", &name), NVRTC_SUCCESS);
  EXPECT_EQ(Run(Cubin(), name), Expected(7, 0));
}

TEST_F(CompilersTest, TheDriversLinkerTakesTheTextForACubin) {
  ASSERT_EQ(Compile(kTriple, {"-arch=sm_90"}), NVRTC_SUCCESS) << Log();
  std::string cubin = Cubin();
  CUlinkState link = nullptr;
  void* image = nullptr;
  ASSERT_OK(CU(cuLinkCreate_v2)(0, nullptr, nullptr, &link));
  ASSERT_OK(CU(cuLinkAddData_v2)(link, CU_JIT_INPUT_CUBIN, cubin.data(), cubin.size(), "", 0,
                                 nullptr, nullptr));
  ASSERT_OK(CU(cuLinkComplete)(link, &image, nullptr));
  EXPECT_EQ(Run(static_cast<const char*>(image), "triple"), Expected(3, 0));
  EXPECT_OK(CU(cuLinkDestroy)(link));
}

// Without a real one: an error, never a crash; and the reason in words.
TEST_F(CompilersTest, WithoutARealLibraryTheErrorSaysWhatIsLookedFor) {
  bool was_lacking = false;
  for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
    void* library = Open(file);
    if (library == nullptr || VersionOf(library) != 0) continue;
    was_lacking = true;
    nvrtcProgram program = nullptr;
    const auto create =
        reinterpret_cast<decltype(&::nvrtcCreateProgram)>(dlsym(library, "nvrtcCreateProgram"));
    EXPECT_EQ(create(&program, kTriple, "t", 0, nullptr, nullptr), NVRTC_ERROR_INTERNAL_ERROR);
    const std::string said = reinterpret_cast<decltype(&::nvrtcGetErrorString)>(
        dlsym(library, "nvrtcGetErrorString"))(NVRTC_ERROR_INTERNAL_ERROR);
    EXPECT_NE(said.find(file), std::string::npos) << said;
    EXPECT_NE(said.find("FARCALL_LIBRARIES"), std::string::npos) << said;
  }
  if (!was_lacking) GTEST_SKIP() << "there is a real one of either major";
}

class LinkerTest : public CompilersTest {
 protected:
  void SetUp() override {
    CompilersTest::SetUp();
    if (IsSkipped()) return;
    const int major = VersionOf(Nvrtc());
    library_ = Open(("nvjitlink/libnvJitLink.so." + std::to_string(major)).c_str());
    ASSERT_NE(library_, nullptr) << dlerror();
    unsigned ours = 0, minor = 0;
    using Version = nvJitLinkResult(unsigned*, unsigned*);
    if (Linker<Version>("nvJitLinkVersion")(&ours, &minor) != NVJITLINK_SUCCESS)
      GTEST_SKIP() << "no libnvJitLink of NVIDIA's is here";
    // What a program names that was compiled by the header of a release.
    complete_ = "__nvJitLinkComplete_" + std::to_string(major) + "_0";
  }

  template <typename Function>
  Function* Linker(const char* name) {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
#define LINK(name) (Linker<decltype(::name)>(#name))

  nvJitLinkResult Link(std::vector<const char*> options, nvJitLinkInputType type,
                       const std::vector<std::string>& inputs, std::string* image,
                       std::string* log) {
    nvJitLinkHandle handle = nullptr;
    EXPECT_EQ(LINK(nvJitLinkCreate)(&handle, static_cast<uint32_t>(options.size()), options.data()),
              NVJITLINK_SUCCESS);
    nvJitLinkResult result = NVJITLINK_SUCCESS;
    for (const std::string& input : inputs) {
      if (result != NVJITLINK_SUCCESS) break;
      result = LINK(nvJitLinkAddData)(handle, type, input.data(), input.size(), "input");
    }
    if (result == NVJITLINK_SUCCESS)
      result = Linker<decltype(::nvJitLinkComplete)>(complete_.c_str())(handle);
    size_t bytes = 0;
    EXPECT_EQ(LINK(nvJitLinkGetErrorLogSize)(handle, &bytes), NVJITLINK_SUCCESS);
    log->resize(bytes);
    if (bytes != 0) EXPECT_EQ(LINK(nvJitLinkGetErrorLog)(handle, log->data()), NVJITLINK_SUCCESS);
    if (result == NVJITLINK_SUCCESS) {
      EXPECT_EQ(LINK(nvJitLinkGetLinkedCubinSize)(handle, &bytes), NVJITLINK_SUCCESS);
      image->resize(bytes);
      EXPECT_EQ(LINK(nvJitLinkGetLinkedCubin)(handle, image->data()), NVJITLINK_SUCCESS);
    }
    EXPECT_EQ(LINK(nvJitLinkDestroy)(&handle), NVJITLINK_SUCCESS);
    return result;
  }

  void* library_ = nullptr;
  std::string complete_;
};

constexpr const char* kCaller =
    "extern __device__ int plus(int); extern \"C\" __global__ void caller(int* d) "
    "{ d[threadIdx.x] = plus(d[threadIdx.x]); }";
constexpr const char* kCallee = "__device__ int plus(int x) { return 2 * x + 5; }";

TEST_F(LinkerTest, UnitsInPtxAreLinkedByTheDevice) {
  std::vector<std::string> units;
  for (const char* source : {kCaller, kCallee}) {
    ASSERT_EQ(Compile(source, {"-arch=sm_90", "-rdc=true"}), NVRTC_SUCCESS) << Log();
    units.push_back(Cubin());
  }
  for (nvJitLinkInputType type :
       {NVJITLINK_INPUT_PTX, NVJITLINK_INPUT_CUBIN, NVJITLINK_INPUT_ANY}) {
    std::string image, log;
    ASSERT_EQ(Link({"-arch=sm_90"}, type, units, &image, &log), NVJITLINK_SUCCESS) << log;
    EXPECT_EQ(Run(image, "caller"), Expected(2, 5));
  }
}

TEST_F(LinkerTest, LinkTimeOptimisationEndsInWhatRuns) {
  std::vector<std::string> units;
  for (const char* source : {kCaller, kCallee}) {
    ASSERT_EQ(Compile(source, {"-arch=sm_90", "-dlto"}), NVRTC_SUCCESS) << Log();
    size_t bytes = 0;
    ASSERT_EQ(RTC(nvrtcGetLTOIRSize)(program_, &bytes), NVRTC_SUCCESS);
    units.emplace_back(bytes, 0);
    ASSERT_EQ(RTC(nvrtcGetLTOIR)(program_, units.back().data()), NVRTC_SUCCESS);
  }
  std::string image, log;
  ASSERT_EQ(Link({"-arch=sm_90", "-lto"}, NVJITLINK_INPUT_LTOIR, units, &image, &log),
            NVJITLINK_SUCCESS)
      << log;
  EXPECT_EQ(Run(image, "caller"), Expected(2, 5));
}

// As Numba has it: -lto and PTX of a release that the real linker does not know.
TEST_F(LinkerTest, NewerTextsAreTheDevicesAlsoWithLinkTimeOptimisation) {
  ASSERT_EQ(Compile(kTriple, {"-arch=sm_90"}), NVRTC_SUCCESS) << Log();
  std::string text = Cubin(), image, log;
  const size_t version = text.find(".version ");
  ASSERT_NE(version, std::string::npos);
  text.replace(version, std::strlen(".version 9.0"), ".version 9.9");
  ASSERT_EQ(Link({"-arch=sm_90", "-lto"}, NVJITLINK_INPUT_PTX, {text}, &image, &log),
            NVJITLINK_SUCCESS)
      << log;
  EXPECT_EQ(Run(image, "triple"), Expected(3, 0));
}

TEST_F(LinkerTest, MachineCodeIsRefusedInWords) {
  std::string image, log;
  EXPECT_EQ(Link({"-arch=sm_90"}, NVJITLINK_INPUT_CUBIN,
                 {std::string("\x7f"
                              "ELF") +
                  std::string(80, 0)},
                 &image, &log),
            NVJITLINK_ERROR_INVALID_INPUT);
  EXPECT_NE(log.find("machine code"), std::string::npos) << log;
}

}  // namespace
}  // namespace farcall::cpu_device
