# SPDX-License-Identifier: Apache-2.0
"""The rule that picks public cuda-samples, applied to their sources before anything is run.

In the order of folders below and of names inside them, a sample is taken when it
  - is one folder of .cu/.cpp files without a build step of its own (no separate kernel file it looks for at run time),
  - uses the CUDA runtime or driver API only, and none of what FEATURES_OUT names,
  - checks its own result (CHECKS), so that its exit code says something.
"""

import dataclasses
import pathlib
import re

FOLDERS = ["0_Introduction", "2_Concepts_and_Techniques", "3_CUDA_Features", "6_Performance"]

FEATURES_OUT = {
    "graphics or another API": r"\bGL/|GLFW|vulkan|\bEGL|nvscibuf|d3d1|mpi\.h|omp\.h|opencv|FreeImage",
    "a CUDA library": r"cublas|cufft|cusolver|cusparse|curand|nvjpeg|npp|cudnn|<thrust/|<cub/|nvrtc",
    "textures, surfaces or arrays": r"cudaArray|cudaTextureObject|cudaSurfaceObject|texture<|CUarray|cudaMallocArray|cudaMalloc3DArray",
    "managed memory": r"cudaMallocManaged|__managed__|cuMemAllocManaged|cudaMemPrefetchAsync",
    "host memory the kernel reaches": r"cudaHostGetDevicePointer|cudaHostAllocMapped|cudaHostRegisterMapped|cudaDeviceMapHost",
    "graphs": r"cudaGraph|cuGraph",
    "memory pools or VMM": r"cudaMallocAsync|cudaMemPool|cuMemCreate|cuMemPool",
    "several devices or processes": r"cudaIpc|cudaDeviceEnablePeerAccess|cudaDeviceCanAccessPeer|fork\(|cudaLaunchCooperativeKernelMultiDevice",
    "tensor cores": r"wmma::|mma\.sync",
    "dynamic parallelism or device linking": r"cudadevrt|\bcdp|CDP",
    "a kernel file of its own": r"findModulePath|\.fatbin|\.ptx\"|cuModuleLoad\b",
}
CHECKS = r"EXIT_FAILURE|exit\(1\)|Result = FAIL|FAILED|Test passed|checkCmdLineFlag|assert\("


@dataclasses.dataclass
class Sample:
    name: str
    folder: str
    path: pathlib.Path
    sources: list
    reason_out: str = ""


def candidates(root):
    for folder in FOLDERS:
        base = pathlib.Path(root) / "Samples" / folder
        for path in sorted(p for p in base.iterdir() if p.is_dir()) if base.is_dir() else []:
            sources = sorted(p for p in path.iterdir() if p.suffix in (".cu", ".cpp", ".c"))
            yield Sample(path.name, folder, path, sources)


def judge(sample):
    """Fills reason_out; empty = taken."""
    if not sample.sources:
        sample.reason_out = "no sources in the folder itself"
        return sample
    files = [
        p for p in sample.path.iterdir() if p.suffix in (".cu", ".cpp", ".c", ".cuh", ".h", ".hpp")
    ]
    text = "\n".join(p.read_text(errors="replace") for p in files)
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    if not any(p.suffix == ".cu" for p in sample.sources):
        sample.reason_out = "no CUDA source"
        return sample
    for reason, pattern in FEATURES_OUT.items():
        if re.search(pattern, text):
            sample.reason_out = reason
            return sample
    if not re.search(CHECKS, text):
        sample.reason_out = "checks nothing"
    return sample


def choose(root):
    """All candidates, judged, in order."""
    return [judge(sample) for sample in candidates(root)]
