# SPDX-License-Identifier: Apache-2.0
"""cuDNN's functions that change several descriptors, or one beside those they name: destinations of transforms, folded convolutions."""

import ctypes
from ctypes import byref, c_float, c_int, c_size_t, c_uint32, c_void_p

from device import Memory, new_stream, start

FLOAT, HALF, NCHW, NHWC = 0, 2, 0, 1
start()
cudnn = ctypes.CDLL("libcudnn.so.9")


def show(what, *results):
    print(what, *results)


def made(kind):
    out = c_void_p()
    assert getattr(cudnn, f"cudnnCreate{kind}")(byref(out)) == 0, kind
    return out


def ints(*values, kind=c_int):
    return (kind * len(values))(*values)


def tensor(*dims, kind=FLOAT):
    out = made("TensorDescriptor")
    assert cudnn.cudnnSetTensor4dDescriptor(out, NCHW, kind, *dims) == 0
    return out


def tensor_is(descriptor):
    kind, count, dims, strides = c_int(-7), c_int(-7), (c_int * 8)(), (c_int * 8)()
    status = cudnn.cudnnGetTensorNdDescriptor(
        descriptor, 8, byref(kind), byref(count), dims, strides
    )
    return status, kind.value, count.value, list(dims)[: count.value], list(strides)[: count.value]


def filter_is(descriptor):
    kind, layout, count, dims = c_int(-7), c_int(-7), c_int(-7), (c_int * 8)()
    status = cudnn.cudnnGetFilterNdDescriptor(
        descriptor, 8, byref(kind), byref(layout), byref(count), dims
    )
    return status, kind.value, layout.value, list(dims)[: count.value]


def convolution_is(descriptor):
    numbers = [c_int(-7) for _ in range(8)]
    return cudnn.cudnnGetConvolution2dDescriptor(descriptor, *map(byref, numbers)), [
        number.value for number in numbers
    ]


def transform_is(descriptor):
    layout, way = c_int(-7), c_int(-7)
    before, after, fold = ints(*[-7] * 4), ints(*[-7] * 4), ints(*[7] * 4, kind=c_uint32)
    status = cudnn.cudnnGetTensorTransformDescriptor(
        descriptor, 4, byref(layout), before, after, fold, byref(way)
    )
    return status, layout.value, list(before), list(after), list(fold), way.value


def transform(layout, before, after, fold, way=0):
    out = made("TensorTransformDescriptor")
    status = cudnn.cudnnSetTensorTransformDescriptor(
        out,
        4,
        layout,
        before and ints(*before),
        after and ints(*after),
        fold and ints(*fold, kind=c_uint32),
        way,
    )
    show("transform", status, transform_is(out))
    return out


handle, stream = made(""), new_stream()
cudnn.cudnnSetStream(handle, stream)
source = tensor(2, 3, 4, 4)
x = Memory(c_float, 96, [((i * 7) % 11 - 5) / 4 for i in range(96)])
size = c_size_t()
for layout, before, after, fold in (
    (NCHW, (0, 0, 0, 0), (0, 1, 0, 0), None),
    (NHWC, (0, 0, 1, 2), (0, 1, 1, 0), None),
    (NCHW, None, None, (2, 2)),
    (NHWC, (0, 0, 0, 0), (0, 1, 0, 0), (2, 2)),
    (NCHW, None, None, None),
):
    how, target = transform(layout, before, after, fold), made("TensorDescriptor")
    size.value = 0
    show(
        "init",
        cudnn.cudnnInitTransformDest(how, source, target, byref(size)),
        size.value,
        tensor_is(target),
    )
    y = Memory(c_float, 1024, [0.0] * 1024)
    ran = cudnn.cudnnTransformTensorEx(
        handle, how, byref(c_float(1)), source, x.address, byref(c_float(0)), target, y.address
    )
    show("run", ran, [round(v, 3) for v in y.read(stream)[: size.value // 4]] if ran == 0 else "")
how, target = transform(NCHW, (0, 0, 0, 0), (0, 1, 0, 0), None), made("TensorDescriptor")
show(
    "twice",
    cudnn.cudnnInitTransformDest(how, source, target, byref(size)),
    cudnn.cudnnInitTransformDest(how, source, target, byref(size)),
    size.value,
)
for wrong in ((None, source, target), (how, made("TensorDescriptor"), target)):
    show("wrong", cudnn.cudnnInitTransformDest(*wrong, byref(size)))
show("wrong", cudnn.cudnnInitTransformDest(how, source, target, None))

# A strided convolution's gradient as one of a convolution that is not.
for channels, step, kind, layout in ((4, 2, HALF, NCHW), (8, 2, FLOAT, NHWC), (4, 1, FLOAT, NCHW)):
    filters, conv = made("FilterDescriptor"), made("ConvolutionDescriptor")
    show(
        "given",
        cudnn.cudnnSetFilter4dDescriptor(filters, kind, NCHW, 8, channels, 3, 3),
        cudnn.cudnnSetConvolution2dDescriptor(conv, 1, 1, step, step, 1, 1, 1, FLOAT),
    )
    grad, diff = tensor(2, channels, 8, 8, kind=kind), tensor(2, 8, 8 // step, 8 // step, kind=kind)
    outs = [
        made(name)
        for name in (
            "FilterDescriptor",
            "TensorDescriptor",
            "ConvolutionDescriptor",
            "TensorDescriptor",
        )
    ]
    outs += [made("TensorTransformDescriptor") for _ in range(4)]
    status = cudnn.cudnnGetFoldedConvBackwardDataDescriptors(
        handle, filters, diff, conv, grad, layout, *outs
    )
    show(
        "folded",
        status,
        filter_is(outs[0]),
        tensor_is(outs[1]),
        convolution_is(outs[2]),
        tensor_is(outs[3]),
    )
    show("by", *map(transform_is, outs[4:]))
    show(
        "wrong",
        cudnn.cudnnGetFoldedConvBackwardDataDescriptors(
            handle, filters, grad, conv, grad, layout, *outs
        ),
        cudnn.cudnnGetFoldedConvBackwardDataDescriptors(
            handle, filters, diff, conv, grad, 9, *outs
        ),
    )
