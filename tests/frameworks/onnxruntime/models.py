# SPDX-License-Identifier: Apache-2.0
"""Models made here, run by the CUDA execution provider, compared with the CPU's."""

import numpy as np
import onnxruntime
from onnx import TensorProto, checker, helper, numpy_helper
from subject import check, fact, main, near, same

RNG = np.random.default_rng(1)
CUDA = ("CUDAExecutionProvider", {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"})
ON_THE_HOST = "CPUExecutionProvider"


def weights(**arrays):
    return [
        numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()
    ]


def model_of(nodes, shape, out_shape, constants=(), kind=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, out_shape)],
        list(constants),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    checker.check_model(model)
    return model.SerializeToString()


def session_of(model, *providers, fall_back=False):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    if not fall_back and providers != (ON_THE_HOST,):
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return onnxruntime.InferenceSession(model, options, providers=list(providers))


def agrees(model, x, rtol=1e-3, atol=1e-4):
    want = session_of(model, ON_THE_HOST).run(None, {"x": x})[0]
    near(session_of(model, CUDA).run(None, {"x": x})[0], want, rtol=rtol, atol=atol)


def uniform(*shape):
    return RNG.random(shape, np.float32) - 0.5


@check
def the_device_is_found():
    fact(
        "CUDAExecutionProvider" in onnxruntime.get_available_providers(),
        f"{onnxruntime.get_available_providers()}",
    )
    session = session_of(model_of([helper.make_node("Identity", ["x"], ["y"])], [4], [4]), CUDA)
    fact(session.get_providers()[0] == "CUDAExecutionProvider", f"{session.get_providers()}")


@check
def copies_come_back():
    x = uniform(1000)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(x, "cuda", 0)
    fact(value.device_name() == "cuda", value.device_name())
    got = value.numpy()
    fact((got == x).all(), "the bytes that came back are not those that went out")


@check
def a_product():
    agrees(
        model_of(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            [16, 32],
            [16, 8],
            weights(w=uniform(32, 8)),
        ),
        uniform(16, 32),
    )


@check
def a_product_with_bias():
    agrees(
        model_of(
            [helper.make_node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5)],
            [16, 32],
            [16, 8],
            weights(w=uniform(32, 8), b=uniform(8)),
        ),
        uniform(16, 32),
    )


@check
def a_convolution():
    agrees(
        model_of(
            [helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])],
            [2, 3, 16, 16],
            [2, 4, 16, 16],
            weights(w=uniform(4, 3, 3, 3), b=uniform(4)),
        ),
        uniform(2, 3, 16, 16),
    )


@check
def pooling():
    agrees(
        model_of(
            [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])],
            [2, 3, 16, 16],
            [2, 3, 8, 8],
        ),
        uniform(2, 3, 16, 16),
    )


@check
def a_perceptron():
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"], axis=-1),
    ]
    agrees(
        model_of(
            nodes,
            [8, 32],
            [8, 10],
            weights(w1=uniform(32, 64), b1=uniform(64), w2=uniform(64, 10), b2=uniform(10)),
        ),
        uniform(8, 32),
    )


@check
def a_small_convolutional_network():
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["y"]),
    ]
    agrees(
        model_of(nodes, [2, 3, 16, 16], [2, 10], weights(k=uniform(8, 3, 3, 3), w=uniform(8, 10))),
        uniform(2, 3, 16, 16),
    )


@check
def sums_and_norms():
    agrees(
        model_of(
            [helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1)],
            [8, 64],
            [8, 64],
            weights(g=uniform(64), b=uniform(64)),
        ),
        uniform(8, 64),
    )
    agrees(
        model_of([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=1)], [8, 64], [1, 1]),
        uniform(8, 64),
        rtol=1e-2,
    )


@check
def inputs_stay_on_the_device():
    session = session_of(
        model_of(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            [16, 32],
            [16, 8],
            weights(w=np.ones((32, 8))),
        ),
        CUDA,
    )
    x, binding = uniform(16, 32), session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(x, "cuda", 0))
    binding.bind_output("y", "cuda")
    for _ in range(3):
        session.run_with_iobinding(binding)
    near(
        binding.get_outputs()[0].numpy(),
        np.repeat(x.sum(1, keepdims=True), 8, 1),
        rtol=1e-3,
        atol=1e-4,
    )


@check
def a_graph_is_captured_and_replayed():
    provider = (CUDA[0], {**CUDA[1], "enable_cuda_graph": "1"})
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [16, 32],
        [16, 8],
        weights(w=np.ones((32, 8))),
    )
    session, x = session_of(model, provider), uniform(16, 32)
    held, out = (
        onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
        for array in (x, np.zeros((16, 8), np.float32))
    )
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", held)
    binding.bind_ortvalue_output("y", out)
    for round_number in range(4):
        held.update_inplace(x + np.float32(round_number))
        session.run_with_iobinding(binding)
        near(
            out.numpy(),
            np.repeat((x + np.float32(round_number)).sum(1, keepdims=True), 8, 1),
            rtol=1e-3,
            atol=1e-3,
        )


@check
def a_bad_model_is_refused_and_the_next_runs():
    try:
        session_of(
            model_of(
                [helper.make_node("MatMul", ["x", "w"], ["y"])],
                [16, 32],
                [16, 8],
                weights(w=uniform(31, 8)),
            ),
            CUDA,
        )
        fact(False, "shapes that do not fit were taken")
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        pass
    same(
        session_of(model_of([helper.make_node("Identity", ["x"], ["y"])], [4], [4]), CUDA).run(
            None, {"x": np.ones(4, np.float32)}
        )[0],
        np.ones(4, np.float32),
    )


main()
