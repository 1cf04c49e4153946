// SPDX-License-Identifier: Apache-2.0
// Memory that two processes share: ipc_child is the other one.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/cpu_device/driver_fixture.h"
#include "tests/cpu_device/hex.h"

namespace farcall::cpu_device {
namespace {

constexpr unsigned kCount = 64;

int RunChild(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), FARCALL_IPC_CHILD);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return -1;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class IpcMemoryTest : public DriverTest {
 protected:
  void Fill(CUdeviceptr data) {
    std::vector<int> values(kCount);
    for (unsigned i = 0; i < kCount; ++i) values[i] = static_cast<int>(i);
    ASSERT_OK(CU(cuMemcpyHtoD_v2)(data, values.data(), kCount * sizeof(int)));
  }
  void ExpectDoubled(CUdeviceptr data) {
    std::vector<int> values(kCount);
    ASSERT_OK(CU(cuMemcpyDtoH_v2)(values.data(), data, kCount * sizeof(int)));
    for (unsigned i = 0; i < kCount; ++i) EXPECT_EQ(values[i], static_cast<int>(2 * i));
  }
};

TEST_F(IpcMemoryTest, IsOneMemoryInTwoProcesses) {
  const size_t free_before = FreeBytes();
  // A neighbour in the same small page keeps its bytes; managed memory is never there.
  const CUdeviceptr neighbour = Allocate(4), data = Allocate(kCount * sizeof(int));
  ASSERT_OK(CU(cuMemsetD32_v2)(neighbour, 7, 1));
  Fill(data);
  CUipcMemHandle handle, inside;
  ASSERT_OK(CU(cuIpcGetMemHandle)(&handle, data));
  ASSERT_OK(CU(cuIpcGetMemHandle)(&inside, data + 16));
  EXPECT_EQ(ToHex(handle), ToHex(inside)) << "an allocation has one handle";
  EXPECT_EQ(RunChild({"memory", ToHex(handle)}), 0);
  ExpectDoubled(data);
  int kept = 0;
  EXPECT_OK(CU(cuMemcpyDtoH_v2)(&kept, neighbour, 4));
  EXPECT_EQ(kept, 7);
  EXPECT_OK(CU(cuMemFree_v2)(data));
  EXPECT_OK(CU(cuMemFree_v2)(neighbour));
  EXPECT_EQ(FreeBytes(), free_before);
  const CUdeviceptr fresh = Allocate(4);  // pages that were shared are ordinary ones again
  EXPECT_OK(CU(cuMemsetD32_v2)(fresh, 1, 1));
  EXPECT_OK(CU(cuMemFree_v2)(fresh));
}

TEST_F(IpcMemoryTest, LargeMemoryCrossesFromItsFirstByteToItsLast) {
  constexpr size_t kBytes = (5 << 20) + 512;
  const CUdeviceptr data = Allocate(kBytes);
  Fill(data);
  ASSERT_OK(CU(cuMemsetD8_v2)(data + kBytes - 1, 9, 1));
  CUipcMemHandle handle;
  ASSERT_OK(CU(cuIpcGetMemHandle)(&handle, data));
  EXPECT_EQ(RunChild({"memory", ToHex(handle)}), 0);
  ExpectDoubled(data);
  unsigned char last = 0;
  EXPECT_OK(CU(cuMemcpyDtoH_v2)(&last, data + kBytes - 1, 1));
  EXPECT_EQ(last, 9);
}

TEST_F(IpcMemoryTest, RefusesWhatIsNoneOfItsHandles) {
  const CUdeviceptr data = Allocate(64);
  CUdeviceptr managed = 0, opened = 0;
  ASSERT_OK(CU(cuMemAllocManaged)(&managed, 64, CU_MEM_ATTACH_GLOBAL));
  CUipcMemHandle handle{};
  EXPECT_EQ(CU(cuIpcGetMemHandle)(&handle, managed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuIpcGetMemHandle)(&handle, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuIpcOpenMemHandle_v2)(&opened, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(CU(cuIpcGetMemHandle)(&handle, data));
  EXPECT_EQ(CU(cuIpcOpenMemHandle_v2)(&opened, handle, 0), CUDA_ERROR_INVALID_CONTEXT)
      << "one's own";
  EXPECT_EQ(CU(cuIpcOpenMemHandle_v2)(&opened, handle, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuIpcCloseMemHandle)(data), CUDA_ERROR_INVALID_VALUE);
  std::string hex = ToHex(handle);
  hex[9 * 2] = hex[9 * 2] == '0' ? '1' : '0';  // the file's identity
  EXPECT_NE(RunChild({"memory", hex}), 0);
}

class IpcPoolTest : public IpcMemoryTest {
 protected:
  CUmemoryPool Make(CUmemAllocationHandleType type) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = type;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool = nullptr;
    EXPECT_OK(CU(cuMemPoolCreate)(&pool, &props));
    return pool;
  }
};

TEST_F(IpcPoolTest, IsOneMemoryInTwoProcesses) {
  const CUmemoryPool pool = Make(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUdeviceptr first = 0, data = 0;
  ASSERT_OK(CU(cuMemAllocFromPoolAsync)(&first, 64, pool, nullptr));
  ASSERT_OK(CU(cuMemAllocFromPoolAsync)(&data, kCount * sizeof(int), pool, nullptr));
  Fill(data);
  int descriptor = -1;
  ASSERT_OK(CU(cuMemPoolExportToShareableHandle)(&descriptor, pool,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  ASSERT_EQ(fcntl(descriptor, F_SETFD, 0), 0);  // the child inherits it
  CUmemPoolPtrExportData exported;
  ASSERT_OK(CU(cuMemPoolExportPointer)(&exported, data));
  EXPECT_EQ(RunChild({"pool", std::to_string(descriptor), ToHex(exported)}), 0);
  ExpectDoubled(data);
  close(descriptor);
  EXPECT_OK(CU(cuMemFreeAsync)(data, nullptr));
  EXPECT_OK(CU(cuMemFreeAsync)(first, nullptr));
  EXPECT_OK(CU(cuMemPoolDestroy)(pool));
}

TEST_F(IpcPoolTest, RefusesPoolsThatAreNotForSharing) {
  const CUmemoryPool pool = Make(CU_MEM_HANDLE_TYPE_NONE);
  CUdeviceptr data = 0;
  ASSERT_OK(CU(cuMemAllocFromPoolAsync)(&data, 64, pool, nullptr));
  int descriptor = -1;
  CUmemPoolPtrExportData exported{};
  CUmemoryPool other = nullptr;
  EXPECT_EQ(CU(cuMemPoolExportToShareableHandle)(&descriptor, pool,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemPoolExportPointer)(&exported, data), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemPoolImportFromShareableHandle)(&other, nullptr,
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE)
      << "no pool's file";
  EXPECT_EQ(CU(cuMemPoolImportPointer)(&data, pool, &exported), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(CU(cuMemFreeAsync)(data, nullptr));
  EXPECT_OK(CU(cuMemPoolDestroy)(pool));
}

}  // namespace
}  // namespace farcall::cpu_device
