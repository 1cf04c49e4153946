# SPDX-License-Identifier: Apache-2.0
"""Trees grown on the device against trees grown on the host."""
import numpy as np
import xgboost
from subject import check, fact, main, near, note

RNG = np.random.default_rng(5)
X = RNG.random((600, 8), np.float32)
Y = (X[:, 0] * 3 + np.sin(X[:, 1] * 6) - X[:, 2] * X[:, 3]).astype(np.float32)


def train(device, **more):
    history = {}
    data = xgboost.DMatrix(X, Y)
    settings = {"device": device, "tree_method": "hist", "max_depth": 4, "eta": 0.3, "seed": 0, **more}
    model = xgboost.train(settings, data, 8, evals=[(data, "train")], evals_result=history, verbose_eval=False)
    return model, np.array(next(iter(history["train"].values())))


@check
def regression():
    model, errors = train("cuda")
    host, host_errors = train("cpu")
    near(errors, host_errors, rtol=1e-3)
    near(model.predict(xgboost.DMatrix(X)), host.predict(xgboost.DMatrix(X)), rtol=1e-2, atol=1e-2)
    note("error of the last round", float(errors[-1]))


@check
def ranking_by_gain():
    model, _ = train("cuda", objective="reg:absoluteerror")
    fact(len(model.get_score(importance_type="gain")) > 0, "no feature was used")


main()
