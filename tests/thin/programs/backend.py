# SPDX-License-Identifier: Apache-2.0
"""cuDNN's backend descriptors by ctypes, for the programs and tests of this folder."""

import ctypes
import struct
from ctypes import byref, c_int64, c_size_t, c_void_p

cudnn = ctypes.CDLL("libcudnn.so.9")
cudnn.cudnnGetVersion.restype = c_size_t
# Types of attributes, and of descriptors.
(
    HANDLE,
    DATA_TYPE,
    BOOLEAN,
    INT64,
    FLOAT,
    DOUBLE,
    POINTER,
    CONV_MODE,
    HEUR_MODE,
    POINTWISE_MODE,
    DESCRIPTOR,
) = 0, 1, 2, 3, 4, 5, 6, 7, 8, 14, 15
(
    POINTWISE,
    CONVOLUTION,
    ENGINE,
    CONFIG,
    HEURISTICS,
    PLAN,
    FORWARD,
    OPERATION_POINTWISE,
    GRAPH,
    PACK,
    TENSOR,
) = 0, 1, 2, 3, 4, 5, 10, 13, 15, 16, 17
FORMS = {
    HANDLE: "Q",
    BOOLEAN: "?",
    INT64: "q",
    FLOAT: "f",
    DOUBLE: "d",
    POINTER: "Q",
    DESCRIPTOR: "Q",
}


def make(kind):
    out = c_void_p()
    status = cudnn.cudnnBackendCreateDescriptor(kind, byref(out))
    assert status == 0, (kind, status)
    return out


def put(descriptor, attribute, kind, *values):
    raw = struct.pack(
        f"<{len(values)}{FORMS.get(kind, 'i')}", *(getattr(v, "value", v) or 0 for v in values)
    )
    return cudnn.cudnnBackendSetAttribute(descriptor, attribute, kind, c_int64(len(values)), raw)


def get(descriptor, attribute, kind, most):
    form, count = FORMS.get(kind, "i"), c_int64(-1)
    room = ctypes.create_string_buffer(struct.calcsize(form) * max(most, 1))
    status = cudnn.cudnnBackendGetAttribute(
        descriptor, attribute, kind, c_int64(most), byref(count), room
    )
    found = max(0, min(most, count.value)) if status == 0 else 0
    return status, count.value, list(struct.unpack_from(f"<{found}{form}", room))


def count_of(descriptor, attribute, kind):
    count = c_int64(-1)
    return cudnn.cudnnBackendGetAttribute(
        descriptor, attribute, kind, c_int64(0), byref(count), None
    ), count.value


def final(kind, *attributes):
    descriptor = make(kind)
    codes = [put(descriptor, *attribute) for attribute in attributes]
    codes.append(cudnn.cudnnBackendFinalize(descriptor))
    assert not any(codes), (kind, codes)
    return descriptor


def tensor(uid, dims, strides, virtual=False, by_value=False):
    return final(
        TENSOR,
        (901, DATA_TYPE, 0),
        (902, INT64, *dims),
        (903, INT64, *strides),
        (906, INT64, uid),
        (900, INT64, 16),
        (907, BOOLEAN, virtual),
        (908, BOOLEAN, by_value),
    )


def packed(dims):
    strides = [1]
    for size in reversed(dims[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides)


def convolution():
    return final(
        CONVOLUTION,
        (100, DATA_TYPE, 0),
        (101, CONV_MODE, 1),
        (102, INT64, 1, 1),
        (103, INT64, 1, 1),
        (104, INT64, 1, 1),
        (105, INT64, 1, 1),
        (106, INT64, 2),
    )


def plain(handle, channels):
    """One convolution."""
    shapes = (2, 3, 8, 8), (channels, 3, 3, 3), (2, channels, 8, 8)
    x, w, y = (tensor(uid + 1, dims, packed(dims)) for uid, dims in enumerate(shapes))
    forward = final(
        FORWARD,
        (700, FLOAT, 1.0),
        (701, FLOAT, 0.0),
        (702, DESCRIPTOR, convolution()),
        (703, DESCRIPTOR, w),
        (704, DESCRIPTOR, x),
        (705, DESCRIPTOR, y),
    )
    return final(GRAPH, (800, HANDLE, handle), (801, DESCRIPTOR, forward))


def scaled(handle):
    """A product with a number that a variant pack holds by value."""
    dims = (1, 2, 4, 8)
    x, scale, y = (
        tensor(1, dims, packed(dims)),
        tensor(2, (1, 1, 1, 1), (1, 1, 1, 1), by_value=True),
        tensor(3, dims, packed(dims)),
    )
    multiply = final(POINTWISE, (0, POINTWISE_MODE, 1), (1, DATA_TYPE, 0))
    product = final(
        OPERATION_POINTWISE,
        (750, DESCRIPTOR, multiply),
        (751, DESCRIPTOR, x),
        (752, DESCRIPTOR, scale),
        (753, DESCRIPTOR, y),
    )
    return final(GRAPH, (800, HANDLE, handle), (801, DESCRIPTOR, product))


def get_objects(descriptor, attribute, into):
    count = c_int64(-1)
    room = (c_void_p * len(into))(*(it.value for it in into))
    return (
        cudnn.cudnnBackendGetAttribute(
            descriptor, attribute, DESCRIPTOR, c_int64(len(into)), byref(count), room
        ),
        count.value,
        room,
    )
