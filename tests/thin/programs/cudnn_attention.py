# SPDX-License-Identifier: Apache-2.0
"""cuDNN's multi-head attention and sequence data: descriptors there and back, sizes, where weights lie, inference, training, and calls that are wrong."""

import ctypes
from ctypes import byref, c_double, c_float, c_int, c_size_t, c_uint, c_void_p

from device import Memory, new_stream, start

FLOAT, DOUBLE = 0, 1
TIME, BATCH, BEAM, VECT = 0, 1, 2, 3
start()
cudnn = ctypes.CDLL("libcudnn.so.9")


def show(what, *results):
    print(what, *results, flush=True)


def made(kind):
    out = c_void_p()
    status = getattr(cudnn, f"cudnnCreate{kind}")(byref(out))
    assert status == 0 and out.value, (kind, status)
    return out


def ints(*values):
    return (c_int * len(values))(*values)


def sequence(
    time, batch, beam, size, lengths=None, kind=FLOAT, axes=(TIME, BATCH, BEAM, VECT), fill=None
):
    out = made("SeqDataDescriptor")
    dims = [0] * 4
    dims[TIME], dims[BATCH], dims[BEAM], dims[VECT] = time, batch, beam, size
    lengths = lengths or [time] * (batch * beam)
    status = cudnn.cudnnSetSeqDataDescriptor(
        out, kind, 4, ints(*dims), ints(*axes), c_size_t(len(lengths)), ints(*lengths), fill
    )
    return status, out


def read_sequence(descriptor, lengths=8):
    kind, dims_count, dims, axes, size, array, fill = (
        c_int(),
        c_int(),
        ints(*[9] * 4),
        ints(*[9] * 4),
        c_size_t(),
        ints(*[9] * lengths),
        c_double(0),
    )
    status = cudnn.cudnnGetSeqDataDescriptor(
        descriptor,
        byref(kind),
        byref(dims_count),
        4,
        dims,
        axes,
        byref(size),
        c_size_t(lengths),
        array,
        byref(fill),
    )
    return status, kind.value, dims_count.value, list(dims), list(axes), size.value, list(array)


def wave(count, step=7, kind=c_float):
    return Memory(kind, count, [((i * step) % 11 - 5) / 8 for i in range(count)])


def rounded(memory, stream=None):
    return [round(value, 4) for value in memory.read(stream)]


handle, stream = made(""), new_stream()
show("sequence", read_sequence(sequence(3, 2, 1, 4, [3, 2])[1]))
show("with a fill", read_sequence(sequence(3, 2, 1, 4, [3, 2], fill=byref(c_float(0)))[1]))
show("fewer lengths asked", read_sequence(sequence(3, 2, 1, 4, [3, 1])[1], 2))
show(
    "wrong",
    sequence(0, 2, 1, 4)[0],
    sequence(3, 2, 1, 4, [4, 2])[0],
    sequence(3, 2, 1, 4, [3])[0],
    cudnn.cudnnSetSeqDataDescriptor(
        None, 0, 4, ints(1, 1, 1, 1), ints(0, 1, 2, 3), c_size_t(1), ints(1), None
    ),
)

BATCH_SIZE, LENGTH, SIZE, HEADS, PROJECTED = 2, 4, 8, 2, 4


def attention(
    mode=2, heads=HEADS, drop=None, post=None, projected=PROJECTED, out=SIZE, kind=FLOAT, scaler=0.5
):
    descriptor = made("AttnDescriptor")
    status = cudnn.cudnnSetAttnDescriptor(
        descriptor,
        c_uint(mode),
        heads,
        c_double(scaler),
        kind,
        kind,
        0,
        drop,
        post,
        SIZE,
        SIZE,
        SIZE,
        projected,
        projected,
        projected,
        out,
        LENGTH,
        LENGTH,
        BATCH_SIZE,
        1,
    )
    return status, descriptor


def read_attention(descriptor):
    mode, scaler, drop, post, numbers = (
        c_uint(),
        c_double(),
        c_void_p(),
        c_void_p(),
        [c_int() for _ in range(15)],
    )
    first, rest = numbers[:4], numbers[4:]
    status = cudnn.cudnnGetAttnDescriptor(
        descriptor,
        byref(mode),
        byref(first[0]),
        byref(scaler),
        *map(byref, first[1:]),
        byref(drop),
        byref(post),
        *map(byref, rest),
    )
    return status, mode.value, scaler.value, [n.value for n in numbers], drop.value, post.value


status, plain = attention()
show("attention", status, read_attention(plain))
show("wrong attention", attention(heads=0)[0], attention(projected=-1)[0], attention(kind=77)[0])
dropouts = [made("DropoutDescriptor") for _ in range(2)]
states_bytes = c_size_t()
assert cudnn.cudnnDropoutGetStatesSize(handle, byref(states_bytes)) == 0
states = Memory(ctypes.c_uint8, states_bytes.value)
for dropout in dropouts:
    assert (
        cudnn.cudnnSetDropoutDescriptor(
            dropout, handle, c_float(0), states.address, states_bytes, ctypes.c_ulonglong(5)
        )
        == 0
    )
for pair in ((dropouts[0], dropouts[1]), (None, dropouts[1]), (dropouts[0], None)):
    status, dropping = attention(drop=pair[0], post=pair[1])
    found = read_attention(dropping)
    show(
        "dropouts",
        status,
        found[:4],
        [got == (one and one.value) for got, one in zip(found[4:], pair)],
    )


def sizes(descriptor, training=True):
    parts = [c_size_t() for _ in range(3)]
    status = cudnn.cudnnGetMultiHeadAttnBuffers(
        handle, descriptor, byref(parts[0]), byref(parts[1]), byref(parts[2]) if training else None
    )
    return status, [part.value for part in parts]


show("sizes", sizes(plain), sizes(plain, False))
_, (weights_bytes, work_bytes, reserve_bytes) = sizes(plain)
work_bytes = max(work_bytes, sizes(plain, False)[1][1])
weights, space, reserve = (
    wave(weights_bytes // 4, 5),
    Memory(ctypes.c_uint8, max(work_bytes, 1)),
    Memory(ctypes.c_uint8, max(reserve_bytes, 1)),
)


def place(descriptor, which):
    tensor, at = made("TensorDescriptor"), c_void_p()
    status = cudnn.cudnnGetMultiHeadAttnWeights(
        handle, descriptor, which, c_size_t(weights_bytes), weights.address, tensor, byref(at)
    )
    kind, count, dims, strides = c_int(), c_int(), ints(*[0] * 8), ints(*[0] * 8)
    cudnn.cudnnGetTensorNdDescriptor(tensor, 8, byref(kind), byref(count), dims, strides)
    used = count.value if status == 0 else 0
    return (
        status,
        None if at.value is None else at.value - weights.address.value,
        kind.value,
        used,
        list(dims)[:used],
        list(strides)[:used],
    )


for which in range(8):
    show("weights", which, place(plain, which))
show("no such weights", place(plain, 8)[0])

SPAN = BATCH_SIZE * LENGTH * SIZE
queries, keys, values, residuals = (wave(SPAN, step) for step in (3, 5, 7, 9))
lengths = [LENGTH, LENGTH - 1]
seq = sequence(LENGTH, BATCH_SIZE, 1, SIZE, lengths)[1]
device_lengths = Memory(c_int, BATCH_SIZE, lengths)
low, high = ints(*[0] * LENGTH), ints(*[LENGTH] * LENGTH)
causal = ints(*range(1, LENGTH + 1))


def forward(current, window, out, with_residuals=False, training=False, descriptor=plain):
    return cudnn.cudnnMultiHeadAttnForward(
        handle,
        descriptor,
        current,
        low,
        window,
        device_lengths.address,
        device_lengths.address,
        seq,
        queries.address,
        residuals.address if with_residuals else None,
        seq,
        keys.address,
        seq,
        values.address,
        seq,
        out.address,
        c_size_t(weights_bytes),
        weights.address,
        c_size_t(work_bytes),
        space.address,
        c_size_t(reserve_bytes if training else 0),
        reserve.address if training else None,
    )


for current, window, residual in (
    (-1, high, False),
    (-1, causal, False),
    (-1, high, True),
    (0, high, False),
    (2, causal, False),
):
    out = Memory(c_float, SPAN)
    show(
        "forward",
        current,
        list(window),
        residual,
        forward(current, window, out, residual),
        rounded(out),
    )
    low[0], window[0] = 77, 99  # captured at the call
    low[0], window[0] = 0, (LENGTH if window is high else 1)
cudnn.cudnnSetStream(handle, stream)
out = Memory(c_float, SPAN)
show("training", forward(-1, causal, out, training=True), rounded(out, stream))
gradient, deltas = wave(SPAN, 6), [Memory(c_float, SPAN) for _ in range(3)]
back = cudnn.cudnnMultiHeadAttnBackwardData(
    handle,
    plain,
    low,
    causal,
    device_lengths.address,
    device_lengths.address,
    seq,
    gradient.address,
    seq,
    deltas[0].address,
    queries.address,
    seq,
    deltas[1].address,
    keys.address,
    seq,
    deltas[2].address,
    values.address,
    c_size_t(weights_bytes),
    weights.address,
    c_size_t(work_bytes),
    space.address,
    c_size_t(reserve_bytes),
    reserve.address,
)


def dot(one, other):
    return sum(a * b for a, b in zip(one, other))


def slope(source):
    """How the output changes along the gradient, as `source` goes a little along a direction; and that direction."""
    before, step = source.read(stream), 1 / 64
    direction = [((3 * i) % 7 - 3) / 4 for i in range(len(before))]
    found = []
    for sign in (1, -1):
        source.write([value + sign * step * along for value, along in zip(before, direction)])
        assert forward(-1, causal, out) == 0
        found.append(dot(out.read(stream), gradient.read(stream)))
    source.write(before)
    return (found[0] - found[1]) / (2 * step), direction


def agrees(source, delta):
    """Its digits beyond the third are not the same on every device's memory, in driver mode neither."""
    want, direction = slope(source)
    got = dot(delta.read(stream), direction)
    assert abs(got - want) < 0.01 * max(1, abs(want)), (got, want)
    return "as the slope of the output"


show("backward", back, *[agrees(*pair) for pair in zip((queries, keys, values), deltas)])
weight_deltas = Memory(c_float, weights_bytes // 4)
for mode in (1, 0):  # set, add
    back = cudnn.cudnnMultiHeadAttnBackwardWeights(
        handle,
        plain,
        mode,
        seq,
        queries.address,
        seq,
        keys.address,
        seq,
        values.address,
        seq,
        gradient.address,
        c_size_t(weights_bytes),
        weights.address,
        weight_deltas.address,
        c_size_t(work_bytes),
        space.address,
        c_size_t(reserve_bytes),
        reserve.address,
    )
    if mode == 0:  # added to what was there, which is the same
        weight_deltas.write([value / 2 for value in weight_deltas.read(stream)])
    show("backward weights", mode, back, agrees(weights, weight_deltas))
show(
    "too little work space",
    cudnn.cudnnMultiHeadAttnForward(
        handle,
        plain,
        -1,
        low,
        high,
        device_lengths.address,
        device_lengths.address,
        seq,
        queries.address,
        None,
        seq,
        keys.address,
        seq,
        values.address,
        seq,
        out.address,
        c_size_t(weights_bytes),
        weights.address,
        c_size_t(0),
        None,
        c_size_t(0),
        None,
    ),
)
show("no descriptor", forward(-1, high, out, descriptor=None), sizes(None)[0])
for descriptor in (plain, seq):
    kind = "Attn" if descriptor is plain else "SeqData"
    show(
        "destroy",
        getattr(cudnn, f"cudnnDestroy{kind}Descriptor")(descriptor),
        getattr(cudnn, f"cudnnDestroy{kind}Descriptor")(None),
    )
