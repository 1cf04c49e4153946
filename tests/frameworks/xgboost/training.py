# SPDX-License-Identifier: Apache-2.0
"""60 rounds of boosting on the device against the same on the host: the metric of each round, and what the model predicts."""

import numpy as np
import xgboost
from subject import EXECUTES, Skip, check, fact, main, near, note

ROUNDS = 60
RNG = np.random.default_rng(8)
# Few enough values for every cut to be a bin's border, so that device and host choose among the same splits.
X = RNG.integers(0, 24, (600, 8)).astype(np.float32)
MARGINS = X[:, 0] / 8 + np.sin(X[:, 1] / 4) - X[:, 2] * X[:, 3] / 300 + RNG.normal(0, 0.2, 600)
# No least weight of a child: on a device XGBoost takes a feature's best split and then drops the feature if that split's child is
# too light, where on the host it takes the best of those that are heavy enough.
SETTINGS = {"max_depth": 4, "eta": 0.1, "seed": 0, "min_child_weight": 0}


def boosted(device, labels, settings, **groups):
    data, history = xgboost.DMatrix(X, labels, **groups), {}
    model = xgboost.train(
        {**SETTINGS, **settings, "device": device},
        data,
        ROUNDS,
        evals=[(data, "train")],
        evals_result=history,
        verbose_eval=False,
    )
    return np.array(next(iter(history["train"].values()))), model.predict(data)


def compare(name, labels, **settings):
    if not EXECUTES:
        raise Skip(
            "XGBoost asks a kernel whether the labels are valid: a value that no kernel computed"
        )
    want, host_predicts = boosted("cpu", labels, settings)
    fact(want[-1] < 0.9 * want[0], f"the host does not learn: {want}")
    got, predicts = boosted("cuda", labels, settings)
    near(got, want, rtol=1e-3, atol=0)
    near(predicts, host_predicts, rtol=1e-2, atol=1e-2)
    note(
        name,
        f"{ROUNDS} rounds, {got[0]:.4f} to {got[-1]:.4f}, at most {np.max(np.abs(got - want) / want):.1e} from the host's",
    )


@check
def squared_errors():
    compare("squared errors", MARGINS, tree_method="hist")


@check
def squared_errors_by_approx():
    compare("by approx", MARGINS, tree_method="approx")


@check
def two_classes():
    compare(
        "two classes",
        (MARGINS > np.median(MARGINS)).astype(np.float32),
        tree_method="hist",
        objective="binary:logistic",
    )


@check
def three_classes():
    labels = np.digitize(MARGINS, np.quantile(MARGINS, (1 / 3, 2 / 3)))
    compare(
        "three classes",
        labels,
        tree_method="hist",
        objective="multi:softprob",
        num_class=3,
        eval_metric="mlogloss",
    )


@check
def counts_by_leaves():
    compare(
        "counts",
        np.floor(np.exp(MARGINS / 2)),
        tree_method="hist",
        objective="count:poisson",
        grow_policy="lossguide",
        max_leaves=12,
        max_depth=0,
    )


main()
