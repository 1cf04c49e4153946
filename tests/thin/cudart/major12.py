# SPDX-License-Identifier: Apache-2.0
"""libcudart.so.12's own meanings, called as a program built with CUDA 12 would. Expects a device."""

import ctypes
from ctypes import byref, c_int, c_size_t, c_void_p

cudart = ctypes.CDLL("libcudart.so.12")
libcuda = ctypes.CDLL("libcuda.so.1")
SUCCESS, INVALID_VALUE = 0, 1
READ_MOSTLY = 1  # cudaMemAdviseSetReadMostly
SIZE_NOW, SIZE_BEFORE = 1032, 728  # of cudaDeviceProp in CUDA 12 and in CUDA 11
CLOCK_KHZ_AT, MAJOR_AT, MINOR_AT, CLOCK_RATE = 348, 360, 364, 13  # offsets; an attribute


def attribute(which):
    value = c_int()
    assert cudart.cudaDeviceGetAttribute(byref(value), which, 0) == SUCCESS
    return value.value


def number(buffer, offset):
    return int.from_bytes(buffer.raw[offset : offset + 4], "little")


def properties():
    for name, size in (
        ("cudaGetDeviceProperties_v2", SIZE_NOW),
        ("cudaGetDeviceProperties", SIZE_BEFORE),
    ):
        buffer = ctypes.create_string_buffer(b"\xa5" * 1100, 1100)
        assert getattr(cudart, name)(buffer, 0) == SUCCESS, name
        assert buffer.raw[size:] == b"\xa5" * (1100 - size), f"{name} wrote past its end"
        assert number(buffer, CLOCK_KHZ_AT) == attribute(CLOCK_RATE), name
        assert (number(buffer, MAJOR_AT), number(buffer, MINOR_AT)) == (
            attribute(75),
            attribute(76),
        ), name
        assert getattr(cudart, name)(None, 0) == INVALID_VALUE
    cudart.cudaGetLastError()


def graphs():
    graph, a, b = c_void_p(), c_void_p(), c_void_p()
    assert cudart.cudaGraphCreate(byref(graph), 0) == SUCCESS
    for node in (a, b):
        assert cudart.cudaGraphAddEmptyNode(byref(node), graph, None, c_size_t(0)) == SUCCESS
    assert cudart.cudaGraphAddDependencies(graph, byref(a), byref(b), c_size_t(1)) == SUCCESS
    origin, target, count = (c_void_p * 4)(), (c_void_p * 4)(), c_size_t(4)
    assert cudart.cudaGraphGetEdges(graph, origin, target, byref(count)) == SUCCESS
    assert (count.value, origin[0], target[0]) == (1, a.value, b.value)
    for name, node, other in (
        ("cudaGraphNodeGetDependencies", b, a),
        ("cudaGraphNodeGetDependentNodes", a, b),
    ):
        found, count = (c_void_p * 4)(), c_size_t(4)
        assert getattr(cudart, name)(node, found, byref(count)) == SUCCESS and (
            count.value,
            found[0],
        ) == (1, other.value), name
    assert cudart.cudaGraphRemoveDependencies(graph, byref(a), byref(b), c_size_t(1)) == SUCCESS
    assert cudart.cudaGraphDestroy(graph) == SUCCESS


def memory_and_streams():
    managed, status, count = c_void_p(), c_int(9), c_size_t(9)
    assert cudart.cudaMallocManaged(byref(managed), c_size_t(4096), 1) == SUCCESS
    assert cudart.cudaMemAdvise(managed, c_size_t(4096), READ_MOSTLY, 0) == SUCCESS
    for device in (0, -1):
        assert cudart.cudaMemPrefetchAsync(managed, c_size_t(4096), device, None) == SUCCESS, device
    assert (
        cudart.cudaStreamGetCaptureInfo(None, byref(status), None) == SUCCESS and status.value == 0
    )
    assert (
        cudart.cudaStreamGetCaptureInfo_v2(None, byref(status), None, None, None, byref(count))
        == SUCCESS
    )
    assert cudart.cudaThreadSynchronize() == SUCCESS
    assert cudart.cudaFree(managed) == SUCCESS


version = c_int()
assert cudart.cudaRuntimeGetVersion(byref(version)) == SUCCESS and version.value == 12090
properties()
graphs()
memory_and_streams()
