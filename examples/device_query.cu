// SPDX-License-Identifier: Apache-2.0
// Lists the devices a program sees: name, memory, compute capability, address on the bus.
//
//   nvcc device_query.cu -o device_query && ./device_query
//
// Expect a few lines per device and one PASS line. It checks that the two ways to ask agree (the
// properties structure and single attributes) and that every device takes and returns bytes.

#include <cstring>
#include <vector>

#include "check.cuh"

struct Attribute {
  cudaDeviceAttr id;
  const char* what;
  int from_properties;
};

void CheckAttributes(int device, const cudaDeviceProp& properties) {
  const Attribute attributes[] = {
      {cudaDevAttrComputeCapabilityMajor, "compute capability (major)", properties.major},
      {cudaDevAttrComputeCapabilityMinor, "compute capability (minor)", properties.minor},
      {cudaDevAttrMultiProcessorCount, "multiprocessors", properties.multiProcessorCount},
      {cudaDevAttrMaxThreadsPerBlock, "threads per block", properties.maxThreadsPerBlock},
      {cudaDevAttrWarpSize, "warp size", properties.warpSize},
      {cudaDevAttrPciBusId, "PCI bus", properties.pciBusID},
      {cudaDevAttrPciDeviceId, "PCI device", properties.pciDeviceID},
      {cudaDevAttrPciDomainId, "PCI domain", properties.pciDomainID},
      {cudaDevAttrL2CacheSize, "L2 bytes", properties.l2CacheSize},
  };
  for (const Attribute& attribute : attributes) {
    int value = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute.id, device));
    if (value != attribute.from_properties) {
      example::Fail("device %d, %s: the attribute is %d, the properties have %d", device,
                    attribute.what, value, attribute.from_properties);
    }
  }
}

// Writes a pattern to the device and reads it back.
void CheckMemory(int device) {
  std::vector<unsigned char> pattern(1 << 20), back(1 << 20);
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<unsigned char>(i * 131 + 7);
  void* bytes = nullptr;
  CUDA_CHECK(cudaMalloc(&bytes, pattern.size()));
  CUDA_CHECK(cudaMemcpy(bytes, pattern.data(), pattern.size(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(back.data(), bytes, back.size(), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(bytes));
  if (std::memcmp(pattern.data(), back.data(), back.size()) != 0)
    example::Fail("device %d: 1 MiB came back changed", device);
}

void Describe(int device, const cudaDeviceProp& properties) {
  size_t free_bytes = 0, total_bytes = 0;
  char bus[32];
  CUDA_CHECK(cudaSetDevice(device));
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus, sizeof(bus), device));
  if (free_bytes > total_bytes)
    example::Fail("device %d: %zu bytes free of %zu", device, free_bytes, total_bytes);
  std::printf("device %d: %s\n", device, properties.name);
  std::printf("  memory              %zu MiB, %zu MiB free\n", total_bytes >> 20, free_bytes >> 20);
  std::printf("  compute capability  %d.%d\n", properties.major, properties.minor);
  std::printf("  multiprocessors     %d\n", properties.multiProcessorCount);
  std::printf("  PCI address         %s\n", bus);
  std::printf("  UUID                GPU-");
  for (int i = 0; i < 16; ++i) {
    std::printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  std::printf("\n");
}

int main() {
  example::name = "device_query";
  int driver = 0, runtime = 0, count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  const char* endpoint = std::getenv("FARCALL_ENDPOINT");
  std::printf("driver %d.%d, runtime %d.%d, %d device(s), %s%s\n", driver / 1000,
              driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, count,
              endpoint ? "FARCALL_ENDPOINT " : "FARCALL_ENDPOINT not set: devices of this machine",
              endpoint ? endpoint : "");
  if (count == 0) example::Fail("the driver reports no device");
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    CheckAttributes(device, properties);
    Describe(device, properties);
    CheckMemory(device);
  }
  return example::Pass("%d device(s), attributes agree with properties, 1 MiB came back unchanged",
                       count);
}
