# SPDX-License-Identifier: Apache-2.0
"""Objects that are wrong, of each library: null, destroyed, of another kind or library; values that no call takes; outputs that are null.
Left out is what NVIDIA's own faults at: it follows most pointers that it is given."""
import ctypes
import os
from ctypes import byref, c_double, c_float, c_int, c_int64, c_longlong, c_size_t, c_uint32, c_uint64, c_void_p

from device import Memory, check, cuda, start

# NVIDIA's libraries tell of arguments on the standard output, where they are: on the server, with ours.
out = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
start()
lt, solver, sparse = ctypes.CDLL("libcublasLt.so.13"), ctypes.CDLL("libcusolver.so.12"), ctypes.CDLL("libcusparse.so.12")
fft, rand, dnn = ctypes.CDLL("libcufft.so.12"), ctypes.CDLL("libcurand.so.10"), ctypes.CDLL("libcudnn.so.9")
nvrtc, link = ctypes.CDLL("libnvrtc.so.13"), ctypes.CDLL("libnvJitLink.so.13")
HUGE = 2**62


def made(create, *more):
    it = c_void_p()
    assert create(byref(it), *more) == 0
    return it


def gone(create, destroy, *more):
    it = made(create, *more)
    assert destroy(it) == 0
    return it


def late(status, harmless):
    """What only the server finds is told by the next call of the object, which would have been right."""
    check(cuda.cuCtxSynchronize())
    return status or harmless()


def show(what, *results):
    print(what, *results, file=out, flush=True)


a = Memory(c_float, 256, [float(i % 7) for i in range(256)])
x, one, written, number, size = a.address, c_float(1), c_size_t(77), c_int(77), c_size_t(77)

# cublasLt: descriptors are any memory of the program's, so the library cannot tell of what kind they are.
handle = made(lt.cublasLtCreate)
R32F, F32 = 0, 68
layout = made(lt.cublasLtMatrixLayoutCreate, R32F, c_uint64(4), c_uint64(4), c_int64(4))
operation = made(lt.cublasLtMatmulDescCreate, F32, R32F)
preference, transform = made(lt.cublasLtMatmulPreferenceCreate), made(lt.cublasLtMatrixTransformDescCreate, R32F)
word = c_uint32(0)
show("lt create", lt.cublasLtCreate(None))
for name, descriptor, attribute in (("MatrixLayout", layout, 0), ("MatmulDesc", operation, 0), ("MatmulPreference", preference, 0), ("MatrixTransformDesc", transform, 0)):
    put, get = getattr(lt, f"cublasLt{name}SetAttribute"), getattr(lt, f"cublasLt{name}GetAttribute")
    wide = c_uint64(0)
    show(f"lt {name} sizes", [put(descriptor, attribute, byref(wide), c_size_t(n)) for n in (0, 1, 2, 4, 8, 16)])
    show(f"lt {name} reads", [(get(descriptor, attribute, byref(wide), c_size_t(n), byref(written)), written.value) for n in (0, 1, 4, 8)])
    show(f"lt {name} nulls", put(descriptor, attribute, None, c_size_t(4)), get(descriptor, attribute, None, c_size_t(4), byref(written)),
         get(descriptor, attribute, None, c_size_t(0), None), get(descriptor, attribute, None, c_size_t(0), byref(written)), written.value)
    show(f"lt {name} of none", put(None, attribute, byref(wide), c_size_t(4)), get(None, attribute, byref(wide), c_size_t(4), byref(written)))
    show(f"lt {name} attribute", [(put(descriptor, n, byref(word), c_size_t(4)), get(descriptor, n, byref(word), c_size_t(4), byref(written)))
                                  for n in (-1, 99, 1000)])
    show(f"lt {name} destroy", getattr(lt, f"cublasLt{name}Destroy")(None))
for rows, columns, apart in ((-1, 4, 4), (4, 4, 3), (0, 4, 4), (4, 4, -4), (HUGE, HUGE, HUGE)):
    show(f"lt layout {rows} {columns} {apart}", lt.cublasLtMatrixLayoutCreate(byref(c_void_p()), R32F, c_uint64(rows), c_uint64(columns), c_int64(apart)))
show("lt layout of none", lt.cublasLtMatrixLayoutCreate(None, R32F, c_uint64(4), c_uint64(4), c_int64(4)), lt.cublasLtMatmulDescCreate(None, F32, R32F),
     lt.cublasLtMatmulPreferenceCreate(None), lt.cublasLtMatrixTransformDescCreate(None, R32F))
show("lt types", [lt.cublasLtMatrixLayoutCreate(byref(c_void_p()), kind, c_uint64(4), c_uint64(4), c_int64(4)) for kind in (-1, 99)],
     [lt.cublasLtMatmulDescCreate(byref(c_void_p()), *kinds) for kinds in ((99, 0), (-1, 0), (68, 99))], lt.cublasLtMatrixTransformDescCreate(byref(c_void_p()), 99))


def product(handle=handle, operation=operation, alpha=byref(one), a=x, la=layout, b=x, lb=layout, beta=byref(one), c=x, lc=layout, d=x, ld=layout, workspace=None, room=0):
    return lt.cublasLtMatmul(handle, operation, alpha, a, la, b, lb, beta, c, lc, d, ld, None, workspace, c_size_t(room), None)


def wrong(call=product, **arguments):
    """Through a handle of its own, whose end tells what only the server finds."""
    own = made(lt.cublasLtCreate)
    return late(call(**{"handle": own, **arguments}), lambda: lt.cublasLtDestroy(own))


for name in ("handle", "a", "la", "b", "lb", "c", "lc", "d", "ld"):
    show(f"lt matmul without {name}", wrong(**{name: None}))
shape = made(lt.cublasLtMatrixLayoutCreate, R32F, c_uint64(3), c_uint64(5), c_int64(3))
double = made(lt.cublasLtMatrixLayoutCreate, 1, c_uint64(4), c_uint64(4), c_int64(4))
show("lt matmul of other shapes", [wrong(**other) for other in ({"la": shape}, {"lc": shape}, {"ld": double})])
results = (ctypes.c_byte * 4096)()


def heuristic(count=1, handle=handle, operation=operation, la=layout):
    return lt.cublasLtMatmulAlgoGetHeuristic(handle, operation, la, layout, layout, layout, preference, count, results, byref(number))


show("lt heuristic", heuristic(0), heuristic(-1), heuristic(handle=None), heuristic(la=None), heuristic(la=shape))
show("lt transform", lt.cublasLtMatrixTransform(None, transform, byref(one), x, layout, byref(one), x, layout, x, layout, None),
     wrong(lambda handle: lt.cublasLtMatrixTransform(handle, transform, byref(one), x, shape, None, None, None, x, layout, None)))
show("lt destroy", lt.cublasLtDestroy(None))

# cuSOLVER
dense, info = made(solver.cusolverDnCreate), Memory(c_int, 4)
show("dn null memory", solver.cusolverDnSpotrf_bufferSize(dense, 0, 2, None, 2, byref(number)), solver.cusolverDnSgesvd_bufferSize(dense, 4, 4, byref(number)))
for m, n in ((-1, 4), (4, -1), (2, 4), (0, 0)):
    show(f"dn gesvd {m} {n}", solver.cusolverDnSgesvd_bufferSize(dense, m, n, byref(number)), solver.cusolverDnSgeqrf_bufferSize(dense, m, n, x, 4, byref(number)))
for mode, fill in ((9, 0), (1, 9), (-1, 0)):
    show(f"dn syevd {mode} {fill}", solver.cusolverDnSsyevd_bufferSize(dense, mode, fill, 4, x, 4, x, byref(number)))
for name in ("SetDeterministicMode", "SetMathMode"):
    if hasattr(solver, "cusolverDn" + name):
        show(f"dn {name}", late(getattr(solver, "cusolverDn" + name)(dense, 99), lambda: solver.cusolverDnSpotrf_bufferSize(dense, 0, 2, x, 2, byref(number))))
params = made(solver.cusolverDnCreateParams)
show("dn params", [late(solver.cusolverDnSetAdvOptions(params, *pair), lambda: solver.cusolverDnSetAdvOptions(params, 0, 0)) for pair in ((99, 0), (0, 99), (-1, 0))])
show("dn X", [solver.cusolverDnXpotrf_bufferSize(dense, params, *values, R32F, x, c_int64(4), R32F, byref(size), byref(size))
              for values in ((9, c_int64(4)), (0, c_int64(-4)), (0, c_int64(8)))], solver.cusolverDnDestroyParams(params))
host, room = ctypes.create_string_buffer(1 << 16), Memory(c_float, 1 << 14)
positive = Memory(c_float, 16, [4.0 if i % 5 == 0 else 1.0 for i in range(16)])
# Without parameters they are as by default.
show("dn X without params", solver.cusolverDnXpotrf_bufferSize(dense, None, 9, c_int64(4), R32F, x, c_int64(4), R32F, byref(size), byref(size)),
     solver.cusolverDnXpotrf(dense, None, 0, c_int64(4), R32F, positive.address, c_int64(4), R32F, room.address, c_size_t(1 << 16), host, c_size_t(1 << 16), info.address),
     [round(value, 4) for value in positive.read()], info.read()[0])
jacobi = made(solver.cusolverDnCreateSyevjInfo)
show("dn syevj", solver.cusolverDnXsyevjSetTolerance(jacobi, c_double(-1)), solver.cusolverDnXsyevjSetMaxSweeps(jacobi, -1))

# cuSPARSE
handle = made(sparse.cusparseCreate)
indices = Memory(c_int, 8, [0, 1, 2, 3, 4, 5, 6, 7])
vector = made(sparse.cusparseCreateDnVec, c_int64(4), x, R32F)
matrix = made(sparse.cusparseCreateDnMat, c_int64(4), c_int64(4), c_int64(4), x, R32F, 1)
thin = made(sparse.cusparseCreateSpVec, c_int64(8), c_int64(4), indices.address, x, 2, 0, R32F)
rows = made(sparse.cusparseCreateCsr, c_int64(4), c_int64(4), c_int64(4), indices.address, indices.address, x, 2, 2, 0, R32F)
show("sparse create", sparse.cusparseCreate(None), sparse.cusparseCreateDnVec(None, c_int64(4), x, R32F),
     sparse.cusparseCreateDnVec(byref(c_void_p()), c_int64(4), None, R32F), sparse.cusparseCreateDnVec(byref(c_void_p()), c_int64(4), x, 99),
     sparse.cusparseCreateSpVec(byref(c_void_p()), c_int64(4), c_int64(2), None, x, 2, 0, R32F), sparse.cusparseCreateMatDescr(None))
show("sparse kinds", [sparse.cusparseCreateSpVec(byref(c_void_p()), c_int64(8), c_int64(4), indices.address, x, *kinds)
                      for kinds in ((9, 0, 0), (2, 9, 0), (2, 0, 99), (0, 0, 0))],
     [sparse.cusparseCreateCsr(byref(c_void_p()), c_int64(4), c_int64(4), c_int64(4), indices.address, indices.address, x, *kinds)
      for kinds in ((9, 2, 0, 0), (2, 9, 0, 0), (2, 2, 9, 0), (2, 2, 0, 99))],
     [sparse.cusparseCreateDnMat(byref(c_void_p()), c_int64(4), c_int64(4), c_int64(4), x, kind, order) for kind, order in ((99, 1), (0, 9))])


def spmv(handle=handle, operation=0, alpha=byref(one), matrix=rows, x=vector, beta=byref(one), y=vector, compute=0, algorithm=0):
    return sparse.cusparseSpMV_bufferSize(handle, operation, alpha, matrix, x, beta, y, compute, algorithm, byref(size))


short = made(sparse.cusparseCreateDnVec, c_int64(3), x, R32F)
for name in ("handle", "alpha", "matrix", "x", "beta", "y"):
    show(f"sparse mv without {name}", spmv(**{name: None}))
show("sparse mv", spmv(), spmv(operation=9), spmv(compute=99), spmv(algorithm=99), spmv(x=short), spmv(y=short))
show("sparse mv output", sparse.cusparseSpMV_bufferSize(handle, 0, byref(one), rows, vector, byref(one), vector, 0, 0, None))
show("sparse axpby", sparse.cusparseAxpby(handle, byref(one), thin, byref(one), None), sparse.cusparseAxpby(handle, byref(one), None, byref(one), vector),
     sparse.cusparseAxpby(None, byref(one), thin, byref(one), vector), late(sparse.cusparseAxpby(handle, None, thin, byref(one), vector), spmv),
     late(sparse.cusparseAxpby(handle, byref(one), thin, byref(one), short), spmv))
show("sparse get", sparse.cusparseDnVecGet(None, byref(c_int64()), byref(c_void_p()), byref(number)), sparse.cusparseDnVecGet(vector, None, byref(c_void_p()), byref(number)),
     sparse.cusparseDnVecSetValues(vector, None), sparse.cusparseDnVecSetValues(None, x))
show("sparse destroy", sparse.cusparseDestroyDnVec(None), sparse.cusparseDestroySpMat(None), sparse.cusparseDestroyMatDescr(None), sparse.cusparseDestroy(None))
show("sparse stream", sparse.cusparseSetStream(None, None), sparse.cusparseGetStream(handle, None), sparse.cusparseGetPointerMode(handle, None),
     sparse.cusparseSetPointerMode(None, 0))

# cuFFT
plan = c_int()
show("fft plan", fft.cufftPlan1d(None, 8, 0x29, 1), fft.cufftCreate(None), fft.cufftPlan1d(byref(plan), 8, 0x77, 1), fft.cufftPlan2d(None, 8, 8, 0x29))
assert fft.cufftPlan1d(byref(plan), 8, 0x29, 1) == 0
show("fft direction", fft.cufftExecC2C(plan, x, x, 0), fft.cufftExecC2C(plan, x, x, 7))
show("fft of another type", fft.cufftExecR2C(plan, x, x), fft.cufftExecZ2Z(plan, x, x, -1))
show("fft foreign", [fft.cufftExecC2C(it, x, x, -1) for it in (-1, 12345, 2**31 - 1)], [fft.cufftDestroy(it) for it in (12345, 2**31 - 1)],
     fft.cufftSetStream(-1, None), fft.cufftGetSize(-1, byref(size)), fft.cufftSetAutoAllocation(-1, 0))
show("fft outputs", fft.cufftGetSize(plan, None), fft.cufftGetVersion(None), fft.cufftGetProperty(9, byref(number)), fft.cufftGetProperty(0, None),
     fft.cufftEstimate1d(8, 0x29, 1, None))
show("fft gone", fft.cufftDestroy(plan), fft.cufftDestroy(plan), fft.cufftGetSize(plan, byref(size)))

# cuRAND
show("rand create", rand.curandCreateGenerator(None, 101))
random = made(rand.curandCreateGenerator, 101)
show("rand memory", rand.curandGenerateUniform(random, x, c_size_t(0)), rand.curandGenerateNormal(random, x, c_size_t(8), c_float(0), c_float(-1)))
show("rand null", rand.curandGenerateUniform(None, x, c_size_t(8)), rand.curandSetPseudoRandomGeneratorSeed(None, c_longlong(1)), rand.curandSetStream(None, None),
     rand.curandSetGeneratorOffset(None, c_longlong(1)), rand.curandGenerateSeeds(None))
show("rand quasi", rand.curandGenerateLongLong(random, x, c_size_t(4)), rand.curandSetQuasiRandomGeneratorDimensions(random, 0))
sobol = made(rand.curandCreateGenerator, 201)
show("rand dimensions", [rand.curandSetQuasiRandomGeneratorDimensions(sobol, n) for n in (0, -1, 20001, 20000)], rand.curandGenerateUniform(sobol, x, c_size_t(8)),
     rand.curandSetPseudoRandomGeneratorSeed(sobol, c_longlong(1)))
show("rand outputs", rand.curandGetProperty(9, byref(number)),
     rand.curandGetDirectionVectors32(byref(c_void_p()), 99))

# cuDNN
dnn_handle, tensor, filters = made(dnn.cudnnCreate), made(dnn.cudnnCreateTensorDescriptor), made(dnn.cudnnCreateFilterDescriptor)
conv, pooling = made(dnn.cudnnCreateConvolutionDescriptor), made(dnn.cudnnCreatePoolingDescriptor)
assert dnn.cudnnSetTensor4dDescriptor(tensor, 0, 0, 1, 2, 4, 4) == 0
for name in ("", "Tensor", "Filter", "Convolution", "Pooling", "Activation", "Dropout", "RNN", "Attn", "SeqData", "ReduceTensor", "OpTensor", "CTCLoss", "SpatialTransformer"):
    create = getattr(dnn, f"cudnnCreate{name}{'Descriptor' if name else ''}")
    show(f"dnn {name} create", create(None))
show("dnn null", dnn.cudnnGetStream(None, byref(c_void_p())), dnn.cudnnDestroy(None))
workspace = c_size_t()
show("dnn size", dnn.cudnnGetConvolutionForwardWorkspaceSize(None, tensor, filters, conv, tensor, 0, byref(workspace)),
     dnn.cudnnGetTensorSizeInBytes(None, byref(workspace)))
show("dnn pooling", [dnn.cudnnSetPooling2dDescriptor(pooling, *values) for values in ((9, 0, 2, 2, 0, 0, 2, 2), (0, 9, 2, 2, 0, 0, 2, 2), (0, 0, -2, 2, 0, 0, 2, 2), (0, 0, 2, 2, -1, 0, 2, 2),
                                                                                   (0, 0, 2, 2, 0, 0, 0, 2), (0, 0, 2, 2, 3, 3, 2, 2))])
show("dnn filter", [dnn.cudnnSetFilter4dDescriptor(filters, *values) for values in ((99, 0, 1, 1, 1, 1), (0, 9, 1, 1, 1, 1), (0, 0, -1, 1, 1, 1), (0, 0, 0, 1, 1, 1))])
show("dnn nd", [dnn.cudnnSetTensorNdDescriptor(tensor, 0, n, (c_int * 9)(*[2] * 9), (c_int * 9)(*[1] * 9)) for n in (-1, 0, 1, 2, 3, 9)])
show("dnn math", dnn.cudnnSetConvolutionMathType(conv, 9), dnn.cudnnSetConvolutionReorderType(conv, 9), dnn.cudnnSetConvolutionMathType(None, 0))
activation = made(dnn.cudnnCreateActivationDescriptor)
show("dnn activation", [dnn.cudnnSetActivationDescriptor(activation, *values) for values in ((99, 0, c_double(0)), (0, 9, c_double(0)), (0, 0, c_double(-1)))],
     dnn.cudnnSetActivationDescriptor(None, 0, 0, c_double(0)))

# The compilers
program = made(nvrtc.nvrtcCreateProgram, b"__global__ void f() {}", b"f.cu", 0, None, None)
show("nvrtc early", nvrtc.nvrtcGetPTXSize(program, byref(size)), nvrtc.nvrtcGetLTOIRSize(program, byref(size)), nvrtc.nvrtcGetOptiXIRSize(program, byref(size)))
show("nvrtc", nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--no-such-option")), nvrtc.nvrtcGetPTXSize(program, byref(size)))
it = c_void_p()
show("link create", link.__nvJitLinkCreate_13_0(None, 0, None), link.__nvJitLinkCreate_13_0(byref(it), 0, None),
     link.__nvJitLinkCreate_13_0(byref(it), 1, (ctypes.c_char_p * 1)(b"-no-such-option")), link.__nvJitLinkCreate_13_0(byref(it), 1, None))
