# SPDX-License-Identifier: Apache-2.0
"""cuDNN's classic API: descriptors there and back, each kind of layer forward and backward, sizes, algorithms, and calls that are wrong."""
import ctypes
from ctypes import byref, c_char_p, c_double, c_float, c_int, c_size_t, c_ulonglong, c_void_p

from device import Memory, new_stream, start

FLOAT, DOUBLE, NCHW, NHWC = 0, 1, 0, 1
start()
cudnn = ctypes.CDLL("libcudnn.so.9")
for name in ("Version", "CudartVersion", "MaxDeviceVersion"):
    getattr(cudnn, f"cudnnGet{name}").restype = c_size_t
cudnn.cudnnGetErrorString.restype = c_char_p


def show(what, *results):
    print(what, *results)


def made(kind):
    out = c_void_p()
    status = getattr(cudnn, f"cudnnCreate{kind}")(byref(out))
    assert status == 0 and out.value, (kind, status)
    return out


def ints(*values):
    return (c_int * len(values))(*values)


def tensor(*dims, kind=FLOAT, strides=None):
    out = made("TensorDescriptor")
    packed = [1]
    for size in reversed(dims[1:]):
        packed.insert(0, packed[0] * size)
    status = cudnn.cudnnSetTensorNdDescriptor(out, kind, len(dims), ints(*dims), ints(*(strides or packed)))
    assert status == 0, status
    return out


def filters(*dims, kind=FLOAT):
    out = made("FilterDescriptor")
    assert cudnn.cudnnSetFilterNdDescriptor(out, kind, NCHW, len(dims), ints(*dims)) == 0
    return out


def wave(count, step=7, kind=c_float):
    return Memory(kind, count, [((i * step) % 11 - 5) / 4 for i in range(count)])


def rounded(memory, stream=None):
    return [round(value, 4) for value in memory.read(stream)]


one, zero, half = c_float(1), c_float(0), c_float(0.5)
handle, stream = made(""), new_stream()
show("versions", cudnn.cudnnGetVersion(), cudnn.cudnnGetCudartVersion(), cudnn.cudnnGetMaxDeviceVersion())
part = c_int()
show("property", [(cudnn.cudnnGetProperty(i, byref(part)), part.value) for i in range(4)])
show("checks", [getattr(cudnn, f"cudnn{name}VersionCheck")() for name in ("Graph", "Ops", "Cnn", "Adv")])
show("texts", [cudnn.cudnnGetErrorString(code).decode() for code in (0, 1001, 2000, 2004, 3000, 3007, 4000, 5003, 77)])
seen = c_void_p()
show("stream", cudnn.cudnnGetStream(handle, byref(seen)), seen.value, cudnn.cudnnSetStream(handle, stream),
     cudnn.cudnnGetStream(handle, byref(seen)), seen.value == stream.value)

# Descriptors there and back, empty, changed, wrong.
kind, count, dims, strides = c_int(-7), c_int(-7), (c_int * 8)(), (c_int * 8)()


def tensor_is(descriptor, most=8):
    status = cudnn.cudnnGetTensorNdDescriptor(descriptor, most, byref(kind), byref(count), dims, strides)
    return status, kind.value, count.value, list(dims)[:count.value], list(strides)[:count.value]


empty = made("TensorDescriptor")
show("empty", tensor_is(empty))
show("4d", cudnn.cudnnSetTensor4dDescriptor(empty, NHWC, FLOAT, 2, 3, 4, 5), tensor_is(empty))
show("4dEx", cudnn.cudnnSetTensor4dDescriptorEx(empty, DOUBLE, 2, 3, 4, 5, 60, 20, 5, 1), tensor_is(empty))
show("NdEx", cudnn.cudnnSetTensorNdDescriptorEx(empty, NCHW, FLOAT, 5, ints(1, 2, 3, 4, 5)), tensor_is(empty), tensor_is(empty, 3))
for wrong in ((NCHW, FLOAT, -1, 2, 3, 4), (NCHW, 99, 1, 2, 3, 4), (9, FLOAT, 1, 2, 3, 4), (NCHW, FLOAT, 1, 0, 3, 4)):
    show("wrong", wrong, cudnn.cudnnSetTensor4dDescriptor(empty, *wrong), tensor_is(empty))
for number in (0, 1, 2, 9, -1):
    show("dimensions", number, cudnn.cudnnSetTensorNdDescriptor(empty, FLOAT, number, ints(*[1] * 9), ints(*[1] * 9)))
size = c_size_t()
show("size", cudnn.cudnnGetTensorSizeInBytes(empty, byref(size)), size.value)
shape = filters(4, 3, 3, 3)
layout = c_int()
show("filter", cudnn.cudnnGetFilterNdDescriptor(shape, 8, byref(kind), byref(layout), byref(count), dims), kind.value, layout.value, list(dims)[:count.value],
     cudnn.cudnnGetFilterSizeInBytes(shape, byref(size)), size.value)
conv = made("ConvolutionDescriptor")
show("conv", cudnn.cudnnSetConvolutionMathType(conv, 3), cudnn.cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, 1, FLOAT),
     cudnn.cudnnGetConvolutionMathType(conv, byref(part)), part.value)
show("groups", cudnn.cudnnSetConvolutionGroupCount(conv, 1), cudnn.cudnnGetConvolutionGroupCount(conv, byref(part)), part.value,
     cudnn.cudnnSetConvolutionGroupCount(conv, -1), cudnn.cudnnSetConvolutionMathType(conv, 9))
pads, steps, spread, mode = ints(*[0] * 2), ints(*[0] * 2), ints(*[0] * 2), c_int()
show("conv Nd", cudnn.cudnnGetConvolutionNdDescriptor(conv, 2, byref(count), pads, steps, spread, byref(mode), byref(kind)), count.value, list(pads),
     list(steps), list(spread), mode.value, kind.value)
show("wrong", cudnn.cudnnSetConvolution2dDescriptor(conv, -1, 1, 1, 1, 1, 1, 1, FLOAT), cudnn.cudnnSetConvolution2dDescriptor(conv, 1, 1, 0, 1, 1, 1, 1, FLOAT))
show("right again", cudnn.cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, 1, FLOAT), cudnn.cudnnSetConvolutionGroupCount(conv, 1))
pool = made("PoolingDescriptor")
show("pool", cudnn.cudnnSetPooling2dDescriptor(pool, 0, 0, 2, 2, 0, 0, 2, 2), cudnn.cudnnSetPooling2dDescriptor(pool, 9, 0, 2, 2, 0, 0, 2, 2))
act = made("ActivationDescriptor")
coefficient = c_double()
show("activation", cudnn.cudnnSetActivationDescriptor(act, 1, 0, c_double(0)), cudnn.cudnnGetActivationDescriptor(act, byref(mode), byref(part), byref(coefficient)),
     mode.value, part.value, coefficient.value, cudnn.cudnnSetActivationDescriptor(act, 99, 0, c_double(0)))

# A convolution and its gradients, by algorithms that say what they need.
x_desc, w_desc, y_desc, b_desc = tensor(2, 3, 8, 8), shape, tensor(2, 4, 8, 8), tensor(1, 4, 1, 1)
x, w, y = wave(2 * 3 * 64), wave(4 * 27, 5), Memory(c_float, 2 * 4 * 64)
show("out", cudnn.cudnnGetConvolution2dForwardOutputDim(conv, x_desc, w_desc, *(byref(at) for at in (mode, kind, count, part))),
     mode.value, kind.value, count.value, part.value)
room = Memory(c_float, 1 << 18)


class Perf(ctypes.Structure):
    _fields_ = [("algo", c_int), ("status", c_int), ("time", c_float), ("memory", c_size_t), ("determinism", c_int), ("math", c_int), ("reserved", c_int * 3)]


perf = (Perf * 10)()
for name, descs, most in (("Forward", (x_desc, w_desc, conv, y_desc), 8), ("BackwardData", (w_desc, y_desc, conv, x_desc), 6),
                          ("BackwardFilter", (x_desc, y_desc, conv, w_desc), 7)):
    status = getattr(cudnn, f"cudnnGetConvolution{name}Algorithm_v7")(handle, *descs, 10, byref(count), perf)
    show(name, status, [(p.algo, p.status, p.memory, p.determinism, p.math) for p in perf[:count.value]])
    show("most", getattr(cudnn, f"cudnnGetConvolution{name}AlgorithmMaxCount")(handle, byref(count)), count.value)
    for algo in (0, 1, most):
        size = c_size_t(0)
        status = getattr(cudnn, f"cudnnGetConvolution{name}WorkspaceSize")(handle, *descs, algo, byref(size))
        show("workspace", algo, status, size.value)
for algo in (0, 1, 99):
    show("forward", algo, cudnn.cudnnConvolutionForward(handle, byref(one), x_desc, x.address, w_desc, w.address, conv, algo, room.address, c_size_t(1 << 20),
                                                        byref(zero), y_desc, y.address), rounded(y, stream)[:40])
dx, dw, db = Memory(c_float, 2 * 3 * 64), Memory(c_float, 4 * 27), Memory(c_float, 4)
for algo in (0, 1):
    show("data", algo, cudnn.cudnnConvolutionBackwardData(handle, byref(one), w_desc, w.address, y_desc, y.address, conv, algo, room.address,
                                                          c_size_t(1 << 20), byref(zero), x_desc, dx.address))
    if algo == 1:
        show("values", rounded(dx, stream)[:40])
    show("filter", algo, cudnn.cudnnConvolutionBackwardFilter(handle, byref(one), x_desc, x.address, y_desc, y.address, conv, algo, room.address,
                                                              c_size_t(1 << 20), byref(zero), w_desc, dw.address))
    if algo == 1:
        show("values", [round(v, 2) for v in dw.read(stream)][:40])
show("bias", cudnn.cudnnConvolutionBackwardBias(handle, byref(one), y_desc, y.address, byref(zero), b_desc, db.address), [round(v, 2) for v in db.read(stream)])
show("no match", cudnn.cudnnConvolutionForward(handle, byref(one), y_desc, x.address, w_desc, w.address, conv, 0, None, c_size_t(0), byref(zero), y_desc, y.address))

# Layers on one small tensor.
small = tensor(2, 3, 4, 4)
a, b, c, d = wave(96), wave(96, 5), Memory(c_float, 96), Memory(c_float, 96)
show("softmax", cudnn.cudnnSoftmaxForward(handle, 1, 1, byref(one), small, a.address, byref(zero), small, c.address), rounded(c, stream))
show("back", cudnn.cudnnSoftmaxBackward(handle, 1, 1, byref(one), small, c.address, small, b.address, byref(half), small, d.address), rounded(d, stream))
show("wrong", cudnn.cudnnSoftmaxForward(handle, 9, 1, byref(one), small, a.address, byref(zero), small, c.address))
for nonlinear in (0, 1, 2, 4):
    show("set", cudnn.cudnnSetActivationDescriptor(act, nonlinear, 0, c_double(1)))
    show("activation", cudnn.cudnnActivationForward(handle, act, byref(one), small, a.address, byref(zero), small, c.address), rounded(c, stream)[:24])
    show("back", cudnn.cudnnActivationBackward(handle, act, byref(one), small, c.address, small, b.address, small, a.address, byref(zero), small, d.address),
         rounded(d, stream)[:24])
pooled = tensor(2, 3, 2, 2)
p, dp = Memory(c_float, 24), wave(24, 3)
show("out", cudnn.cudnnGetPooling2dForwardOutputDim(pool, small, *(byref(at) for at in (mode, kind, count, part))), mode.value, kind.value, count.value, part.value)
for how in (0, 1, 2):
    show("pool", cudnn.cudnnSetPooling2dDescriptor(pool, how, 0, 2, 2, 0, 0, 2, 2),
         cudnn.cudnnPoolingForward(handle, pool, byref(one), small, a.address, byref(zero), pooled, p.address), rounded(p, stream))
    show("back", cudnn.cudnnPoolingBackward(handle, pool, byref(one), pooled, p.address, pooled, dp.address, small, a.address, byref(zero), small, d.address),
         rounded(d, stream)[:32])
local = made("LRNDescriptor")
show("lrn", cudnn.cudnnSetLRNDescriptor(local, 3, c_double(1e-2), c_double(0.75), c_double(2)),
     cudnn.cudnnLRNCrossChannelForward(handle, local, 0, byref(one), small, a.address, byref(zero), small, c.address), rounded(c, stream)[:24])

# Batch normalisation: running averages, saved statistics, gradients.
stats = made("TensorDescriptor")
show("derive", cudnn.cudnnDeriveBNTensorDescriptor(stats, small, 1), tensor_is(stats))
for mode, groups in ((0, 1), (1, 1), (2, 1), (1, 2)):
    both = made("TensorDescriptor"), made("TensorDescriptor")
    show("derive norm", mode, groups, cudnn.cudnnDeriveNormTensorDescriptor(*both, small, mode, groups), *map(tensor_is, both))
scale, shift, mean, variance, saved, inverse = (Memory(c_float, 3, [1, 2, 3]) for _ in range(6))
dscale, dshift = Memory(c_float, 3), Memory(c_float, 3)
for _ in range(2):
    show("train", cudnn.cudnnBatchNormalizationForwardTraining(handle, 1, byref(one), byref(zero), small, a.address, small, c.address, stats, scale.address,
                                                               shift.address, c_double(0.1), mean.address, variance.address, c_double(1e-5), saved.address,
                                                               inverse.address), rounded(c, stream)[:24], rounded(mean), rounded(variance), rounded(saved))
show("infer", cudnn.cudnnBatchNormalizationForwardInference(handle, 1, byref(one), byref(zero), small, a.address, small, c.address, stats, scale.address,
                                                            shift.address, mean.address, variance.address, c_double(1e-5)), rounded(c, stream)[:24])
show("back", cudnn.cudnnBatchNormalizationBackward(handle, 1, byref(one), byref(zero), byref(one), byref(zero), small, a.address, small, b.address, small,
                                                   d.address, stats, scale.address, dscale.address, dshift.address, c_double(1e-5), saved.address, inverse.address),
     rounded(d, stream)[:24], rounded(dscale), rounded(dshift))
for ops in (0, 1, 2):
    sizes = [c_size_t(1) for _ in range(3)]
    show("sizes", cudnn.cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle, 1, ops, small, None, small, stats, None, byref(sizes[0])),
         cudnn.cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle, 1, ops, None, small, byref(sizes[1])), sizes[0].value, sizes[1].value)

# Tensors of doubles have scalars of doubles; sums, products, reductions.
wide = tensor(2, 3, 4, 4, kind=DOUBLE)
e, f = wave(96, kind=c_double), Memory(c_double, 96)
show("double", cudnn.cudnnSoftmaxForward(handle, 1, 0, byref(c_double(2)), wide, e.address, byref(c_double(0)), wide, f.address), rounded(f, stream)[:24])
show("add", cudnn.cudnnAddTensor(handle, byref(c_double(0.5)), wide, e.address, byref(c_double(3)), wide, f.address), rounded(f, stream)[:24])
show("scale", cudnn.cudnnScaleTensor(handle, wide, f.address, byref(c_double(-2))), rounded(f, stream)[:12])
show("fill", cudnn.cudnnSetTensor(handle, wide, f.address, byref(c_double(1.25))), rounded(f, stream)[:4])
show("transform", cudnn.cudnnTransformTensor(handle, byref(half), small, a.address, byref(zero), tensor(2, 3, 4, 4, strides=[48, 1, 12, 3]), c.address),
     rounded(c, stream)[:24])
operation = made("OpTensorDescriptor")
for what in range(4):
    show("op", what, cudnn.cudnnSetOpTensorDescriptor(operation, what, FLOAT, 0),
         cudnn.cudnnOpTensor(handle, operation, byref(one), small, a.address, byref(half), small, b.address, byref(zero), small, c.address), rounded(c, stream)[:16])
reduction, target = made("ReduceTensorDescriptor"), tensor(1, 3, 1, 1)
r = Memory(c_float, 3)
for what in range(8):
    status = cudnn.cudnnSetReduceTensorDescriptor(reduction, what, FLOAT, 0, 0, 0)
    asked = cudnn.cudnnGetReductionWorkspaceSize(handle, reduction, small, target, byref(size))
    show("reduce", what, status, asked, size.value,
         cudnn.cudnnReduceTensor(handle, reduction, None, c_size_t(0), room.address, c_size_t(1 << 20), byref(one), small, a.address, byref(zero), target, r.address),
         [round(v, 3) for v in r.read(stream)])

# Dropout: states that the library fills, restored ones, the same mask twice.
dropout = made("DropoutDescriptor")
show("states", cudnn.cudnnDropoutGetStatesSize(handle, byref(size)), size.value)
states = Memory(ctypes.c_uint8, size.value)
show("too small", cudnn.cudnnSetDropoutDescriptor(dropout, handle, c_float(0.5), states.address, c_size_t(8), c_ulonglong(1)))
show("set", cudnn.cudnnSetDropoutDescriptor(dropout, handle, c_float(0.5), states.address, size, c_ulonglong(42)))
reserve = c_size_t()
show("reserve", cudnn.cudnnDropoutGetReserveSpaceSize(small, byref(reserve)), reserve.value)
mask = Memory(ctypes.c_uint8, reserve.value)
show("drop", cudnn.cudnnDropoutForward(handle, dropout, small, a.address, small, c.address, mask.address, reserve), rounded(c, stream))
show("back", cudnn.cudnnDropoutBackward(handle, dropout, small, b.address, small, d.address, mask.address, reserve), rounded(d, stream))
show("again", cudnn.cudnnDropoutForward(handle, dropout, small, a.address, small, c.address, mask.address, reserve), rounded(c, stream))
show("seed", cudnn.cudnnSetDropoutDescriptor(dropout, handle, c_float(0.5), states.address, size, c_ulonglong(42)),
     cudnn.cudnnDropoutForward(handle, dropout, small, a.address, small, c.address, mask.address, reserve), rounded(c, stream))
show("restore", cudnn.cudnnRestoreDropoutDescriptor(dropout, handle, c_float(0.25), states.address, size, c_ulonglong(42)),
     cudnn.cudnnDropoutForward(handle, dropout, small, a.address, small, c.address, mask.address, reserve), rounded(c, stream))
fraction, at, seed = c_float(), c_void_p(), c_ulonglong()
show("dropout", cudnn.cudnnGetDropoutDescriptor(dropout, handle, byref(fraction), byref(at), byref(seed)), fraction.value, at.value == states.address.value, seed.value)

# A recurrent network: sizes, where weights lie, forward and backward.
rnn, none = made("RNNDescriptor"), made("DropoutDescriptor")
show("no dropout", cudnn.cudnnSetDropoutDescriptor(none, handle, c_float(0), None, c_size_t(0), c_ulonglong(0)))
show("rnn", cudnn.cudnnSetRNNDescriptor_v8(rnn, 0, 2, 2, 0, 0, FLOAT, FLOAT, 0, 4, 4, 4, 1, none, 1))
many = [c_int() for _ in range(12)]
back, flags = c_void_p(), c_int()
show("rnn is", cudnn.cudnnGetRNNDescriptor_v8(rnn, *(byref(m) for m in many), byref(back), byref(flags)), [m.value for m in many], back.value == none.value, flags.value)
data = made("RNNDataDescriptor")
show("data", cudnn.cudnnSetRNNDataDescriptor(data, FLOAT, 0, 3, 2, 4, ints(3, 2), byref(zero)))
lengths = ints(0, 0)
fill = c_float(9)
show("data is", cudnn.cudnnGetRNNDataDescriptor(data, *(byref(m) for m in many[:5]), 2, lengths, byref(fill)), [m.value for m in many[:5]], list(lengths), fill.value)
weights_size, work_size, reserve_size = c_size_t(), c_size_t(), c_size_t()
show("weights", cudnn.cudnnGetRNNWeightSpaceSize(handle, rnn, byref(weights_size)), weights_size.value)
show("temporary", cudnn.cudnnGetRNNTempSpaceSizes(handle, rnn, 1, data, byref(work_size), byref(reserve_size)), work_size.value, reserve_size.value)
weights = wave(weights_size.value // 4, 3)
m_desc, v_desc = made("TensorDescriptor"), made("TensorDescriptor")
for line in (0, 3, 7, 8):
    m_at, v_at = c_void_p(), c_void_p()
    status = cudnn.cudnnGetRNNWeightParams(handle, rnn, 0, weights_size, weights.address, line, m_desc, byref(m_at), v_desc, byref(v_at))
    show("weight", line, status, (m_at.value or weights.address.value) - weights.address.value, (v_at.value or weights.address.value) - weights.address.value)
    if status == 0:
        show("shapes", tensor_is(m_desc), tensor_is(v_desc))
hidden = tensor(1, 2, 4)
sequence, out = wave(24), Memory(c_float, 24)
h, hy, cell, cy = (wave(8) for _ in range(4))
work, reserved = Memory(ctypes.c_uint8, max(1, work_size.value)), Memory(ctypes.c_uint8, max(1, reserve_size.value))
device_lengths = Memory(c_int, 2, [3, 2])
status = cudnn.cudnnRNNForward(handle, rnn, 1, device_lengths.address, data, sequence.address, data, out.address, hidden, h.address, hy.address, hidden,
                               cell.address, cy.address, weights_size, weights.address, work_size, work.address, reserve_size, reserved.address)
show("forward", status, [round(v, 3) for v in out.read(stream)], [round(v, 3) for v in hy.read(stream)])

# Handles and descriptors that are none.
gone = made("TensorDescriptor")
show("null", cudnn.cudnnSoftmaxForward(None, 1, 1, byref(one), small, a.address, byref(zero), small, c.address), cudnn.cudnnSetStream(None, None),
     cudnn.cudnnSoftmaxForward(handle, 1, 1, byref(one), None, a.address, byref(zero), small, c.address),
     cudnn.cudnnSoftmaxForward(handle, 1, 1, None, small, a.address, byref(zero), small, c.address),
     cudnn.cudnnSoftmaxForward(handle, 1, 1, byref(one), small, None, byref(zero), small, c.address))
show("null", cudnn.cudnnCreate(None), cudnn.cudnnSetTensor4dDescriptor(None, NCHW, FLOAT, 1, 1, 1, 1), cudnn.cudnnGetTensorNdDescriptor(None, 8, byref(kind), byref(count),
                                                                                                                                   dims, strides))
show("destroy", [cudnn.cudnnDestroyTensorDescriptor(it) for it in (gone, empty, x_desc, None)], cudnn.cudnnDestroyConvolutionDescriptor(conv), cudnn.cudnnDestroy(handle))
