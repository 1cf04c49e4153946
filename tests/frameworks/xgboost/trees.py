# SPDX-License-Identifier: Apache-2.0
"""Trees grown on the device against trees grown on the host."""

import numpy as np
import xgboost
from subject import EXECUTES, Skip, check, fact, main, near, note

RNG = np.random.default_rng(5)
X = RNG.random((600, 8), np.float32)
Y = (X[:, 0] * 3 + np.sin(X[:, 1] * 6) - X[:, 2] * X[:, 3]).astype(np.float32)
SETTINGS = {"tree_method": "hist", "max_depth": 4, "eta": 0.3, "seed": 0}
# Of the objectives, one that asks no kernel whether the labels are valid.
UNASKED = {**SETTINGS, "objective": "reg:pseudohubererror", "base_score": 0.5}


def train(device, **more):
    if device == "cuda" and not EXECUTES:
        raise Skip(
            "XGBoost asks a kernel whether the labels are valid: a value that no kernel computed"
        )
    history = {}
    data = xgboost.DMatrix(X, Y)
    model = xgboost.train(
        {**SETTINGS, "device": device, **more},
        data,
        8,
        evals=[(data, "train")],
        evals_result=history,
        verbose_eval=False,
    )
    return model, np.array(next(iter(history["train"].values())))


def train_by_own_gradients(device):
    def squared_error(margins, data):
        return margins - data.get_label(), np.ones(len(margins), np.float32)

    data = xgboost.DMatrix(X, Y)
    return xgboost.train({**UNASKED, "device": device}, data, 4, obj=squared_error).predict(data)


@check
def trees_grow_from_the_programs_gradients():
    near(train_by_own_gradients("cuda"), train_by_own_gradients("cpu"), rtol=1e-2, atol=1e-2)


@check
def quantiles_are_sketched():
    def cuts(device):
        matrix = xgboost.QuantileDMatrix(X, Y, max_bin=16)
        xgboost.train({**UNASKED, "device": device, "max_bin": 16}, matrix, 1)
        return matrix.get_quantile_cut()

    for got, want in zip(cuts("cuda"), cuts("cpu")):
        near(got, want)


@check
def regression():
    model, errors = train("cuda")
    host, host_errors = train("cpu")
    near(errors, host_errors, rtol=1e-3)
    near(model.predict(xgboost.DMatrix(X)), host.predict(xgboost.DMatrix(X)), rtol=1e-2, atol=1e-2)
    note("error of the last round", float(errors[-1]))


@check
def features_are_ranked_by_gain():
    if not EXECUTES:
        raise Skip(
            "XGBoost ends its process where a sketch, which no kernel computed, contradicts itself"
        )

    def gains(device):
        scores = xgboost.train({**UNASKED, "device": device}, xgboost.DMatrix(X, Y), 4).get_score(
            importance_type="gain"
        )
        return np.array([scores.get(f"f{i}", 0) for i in range(8)])

    near(gains("cuda"), gains("cpu"), rtol=2e-2, atol=1e-3)


@check
def absolute_errors():
    model, _ = train("cuda", objective="reg:absoluteerror")
    fact(len(model.get_score(importance_type="gain")) > 0, "no feature was used")


main()
