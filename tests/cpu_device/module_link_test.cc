// SPDX-License-Identifier: Apache-2.0
// Units of PTX that the driver's linker puts together: names, managed variables, what each was
// compiled for, the device runtime's barrier.
#include <cstring>
#include <string>
#include <vector>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

// Units as PTX, linked and loaded.
void LinkTexts(const std::vector<std::string>& units, CUmodule* linked) {
  CUlinkState link = nullptr;
  ASSERT_OK(CU(cuLinkCreate_v2)(0, nullptr, nullptr, &link));
  for (const std::string& text : units) {
    ASSERT_OK(CU(cuLinkAddData_v2)(link, CU_JIT_INPUT_PTX, const_cast<char*>(text.c_str()),
                                   text.size() + 1, "unit", 0, nullptr, nullptr));
  }
  void* image = nullptr;
  size_t bytes = 0;
  ASSERT_OK(CU(cuLinkComplete)(link, &image, &bytes));
  ASSERT_OK(CU(cuModuleLoadData)(linked, image));
  EXPECT_OK(CU(cuLinkDestroy)(link));
}

// Names without linkage are their unit's own: both have a `value` and a `step`, in comments and
// strings as well.
TEST_F(DriverTest, LinkedUnitsKeepTheirOwnNamesApart) {
  auto unit = [](const std::string& kernel, const std::string& number) {
    return ".version 7.0\n.target sm_70\n.address_size 64\n// .global value\n.global .align 4 .u32 "
           "value[2] = {" +
           number + ", 7};\n.func (.reg .u32 out) step (.reg .u32 in) { add.u32 out, in, " +
           number + "; ret; }\n.visible .entry " + kernel +
           "(.param .u64 p)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, "
           "[p];\nld.global.u32 %r1, [value];\n"
           "call (%r2), step, (%r1);\nst.global.u32 [%rd1], %r2;\nret;\n}\n";
  };
  const std::string one = unit("one", "10"), two = unit("two", "20");
  CUmodule linked = nullptr;
  ASSERT_NO_FATAL_FAILURE(LinkTexts({one, two}, &linked));
  CUdeviceptr out = Allocate(4);
  for (const auto& [name, want] : {std::pair{"one", 20u}, std::pair{"two", 40u}}) {
    CUfunction function = nullptr;
    ASSERT_OK(CU(cuModuleGetFunction)(&function, linked, name));
    void* params[] = {&out};
    ASSERT_OK(CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    uint32_t got = 0;
    ASSERT_OK(CU(cuMemcpyDtoH_v2)(&got, out, sizeof(got)));
    EXPECT_EQ(got, want) << name;
  }
}

// Numba declares a C function without a result as one that has one.
TEST_F(DriverTest, AResultThatAnotherUnitsFunctionLacksIsNoError) {
  const std::string head = ".version 7.0\n.target sm_70\n.address_size 64\n";
  const std::string caller = head +
                             ".extern .func (.param .b64 r) store (.param .b64 p);\n"
                             ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd<3>;\n"
                             "ld.param.u64 %rd1, [p];\n{\n.param .b64 a;\n.param .b64 back;\n"
                             "st.param.b64 [a], %rd1;\ncall.uni (back), store, (a);\n}\n"
                             "add.u64 %rd1, %rd1, 4;\ncall.uni (%rd2), store, (%rd1);\nret;\n}\n";
  const std::string callee = head +
                             ".visible .func store(.param .b64 p)\n{\n.reg .b64 %rd<2>;\n"
                             "ld.param.u64 %rd1, [p];\nst.u32 [%rd1], 42;\nret;\n}\n";
  CUmodule linked = nullptr;
  CUfunction function = nullptr;
  ASSERT_NO_FATAL_FAILURE(LinkTexts({caller, callee}, &linked));
  ASSERT_OK(CU(cuModuleGetFunction)(&function, linked, "k"));
  CUdeviceptr out = Allocate(8);
  void* params[] = {&out};
  ASSERT_OK(CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  uint32_t got[2] = {};
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(got, out, sizeof(got)));
  EXPECT_EQ(got[0], 42u);
  EXPECT_EQ(got[1], 42u);
}

TEST_F(DriverTest, AManagedVariableIsManagedMemory) {
  const std::string text =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .attribute(.managed) .align "
      "4 "
      ".u32 shared_with_host = 5;\n.visible .global .align 4 .u32 own = 6;\n";
  CUmodule module = nullptr;
  ASSERT_OK(CU(cuModuleLoadData)(&module, text.c_str()));
  for (const auto& [name, want] : {std::pair{"shared_with_host", 1u}, std::pair{"own", 0u}}) {
    CUdeviceptr variable = 0;
    unsigned managed = 7;
    ASSERT_OK(CU(cuModuleGetGlobal_v2)(&variable, nullptr, module, name));
    EXPECT_OK(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, variable));
    EXPECT_EQ(managed, want) << name;
    int* host = nullptr;
    const CUresult result =
        CU(cuPointerGetAttribute)(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, variable);
    EXPECT_EQ(result, want == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    if (want == 1) EXPECT_EQ(*host, 5);
  }
}

// CUB compares it with what its program was compiled for; what libraries were is no matter.
TEST_F(DriverTest, LinkedKernelsTellWhatTheirOwnUnitWasCompiledFor) {
  auto unit = [](const std::string& target, const std::string& kernel, const std::string& weak) {
    return ".version 8.6\n.target " + target +
           "\n.address_size 64\n.weak .func (.reg .u32 out) shared_by_both() { mov.u32 out, " +
           weak + "; ret; }\n.visible .entry " + kernel +
           "(.param .u64 p)\n{\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n"
           "call (%r1), shared_by_both;\nst.global.u32 [%rd1], %r1;\nret;\n}\n";
  };
  const std::string one = unit("sm_70", "one", "5"), two = unit("sm_90", "two", "5");
  // A weak function is in both units.
  CUmodule linked = nullptr;
  ASSERT_NO_FATAL_FAILURE(LinkTexts({one, two}, &linked));
  CUdeviceptr out = Allocate(4);
  for (const auto& [name, want] : {std::pair{"one", 70}, std::pair{"two", 90}}) {
    CUfunction function = nullptr;
    int version = 0;
    ASSERT_OK(CU(cuModuleGetFunction)(&function, linked, name));
    ASSERT_OK(CU(cuFuncGetAttribute)(&version, CU_FUNC_ATTRIBUTE_PTX_VERSION, function));
    EXPECT_EQ(version, want) << name;
    void* params[] = {&out};
    ASSERT_OK(CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    uint32_t got = 0;
    ASSERT_OK(CU(cuMemcpyDtoH_v2)(&got, out, sizeof(got)));
    EXPECT_EQ(got, 5u) << name;
  }
}

// What libcudadevrt.a calls for a grid that waits: every block counts, then every block sees all.
TEST_F(DriverTest, TheGridsBarrierOfTheDeviceRuntimeWaitsForAllBlocks) {
  const std::string head = ".version 7.0\n.target sm_70\n.address_size 64\n";
  const std::string kernel = head + R"(
.extern .func (.param .b64 out) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 scope);
.extern .func (.param .b32 out) __cuda_syscall_CGS_sync(.param .b64 handle, .param .b32 flags);
.visible .entry k(.param .u64 p)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  .param .b32 scope;
  .param .b64 found;
  .param .b64 handle;
  .param .b32 flags;
  .param .b32 code;
  ld.param.u64 %rd1, [p];
  mov.u32 %r6, 0;
AGAIN:
  atom.global.add.u32 %r1, [%rd1], 1;
  st.param.b32 [scope], 1;
  call.uni (found), __cuda_syscall_CGS_get_intrinsic_handle, (scope);
  ld.param.b64 %rd2, [found];
  st.param.b64 [handle], %rd2;
  st.param.b32 [flags], 0;
  call.uni (code), __cuda_syscall_CGS_sync, (handle, flags);
  ld.param.b32 %r2, [code];
  ld.relaxed.gpu.global.u32 %r3, [%rd1];
  add.u32 %r3, %r3, %r2;
  call.uni (code), __cuda_syscall_CGS_sync, (handle, flags);
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p1, %r6, 3;
  @%p1 bra AGAIN;
  mov.u32 %r4, %ctaid.x;
  mul.wide.u32 %rd3, %r4, 4;
  add.u64 %rd3, %rd3, %rd1;
  st.global.u32 [%rd3+4], %r3;
  ret;
}
)";
  const std::string other = head + ".visible .func unused { ret; }\n";
  CUmodule linked = nullptr;
  ASSERT_NO_FATAL_FAILURE(LinkTexts({kernel, other}, &linked));
  CUfunction function = nullptr;
  ASSERT_OK(CU(cuModuleGetFunction)(&function, linked, "k"));
  constexpr unsigned kBlocks = 3, kThreads = 40;
  CUdeviceptr out = Allocate(4 * (1 + kBlocks));
  ASSERT_OK(CU(cuMemsetD8_v2)(out, 0, 4 * (1 + kBlocks)));
  void* params[] = {&out};
  ASSERT_OK(
      CU(cuLaunchCooperativeKernel)(function, kBlocks, 1, 1, kThreads, 1, 1, 0, nullptr, params));
  ASSERT_OK(CU(cuCtxSynchronize)());
  uint32_t got[1 + kBlocks] = {};
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(got, out, sizeof(got)));
  for (uint32_t value : got) EXPECT_EQ(value, 3 * kBlocks * kThreads);
}

}  // namespace
}  // namespace farcall::cpu_device
