# SPDX-License-Identifier: Apache-2.0
"""Saving and loading."""

import io

import torch
from subject import check, exact, fact, main


@check
def tensors_are_saved_and_loaded():
    tensor = torch.randn(300, 40)
    file = io.BytesIO()
    torch.save({"t": tensor.cuda()}, file)
    for place in ("cuda", "cpu"):
        file.seek(0)
        loaded = torch.load(file, map_location=place)["t"]
        fact(loaded.device.type == place, f"{loaded.device}")
        exact(loaded, tensor)


@check
def a_model_and_its_optimiser_continue():
    model = torch.nn.Linear(20, 10)
    weight = model.weight.detach().clone()
    model.cuda()
    optimiser = torch.optim.AdamW(model.parameters())
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, file)
    file.seek(0)
    state = torch.load(file, map_location="cuda")
    other = torch.nn.Linear(20, 10).cuda()
    other.load_state_dict(state["model"])
    torch.optim.AdamW(other.parameters()).load_state_dict(state["optimiser"])
    exact(other.weight, weight)


@check
def a_model_moves():
    model = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.BatchNorm1d(5))
    want = {name: value.clone() for name, value in model.state_dict().items()}
    for _ in range(3):
        model.cuda()
        model.cpu()
    for name, value in model.state_dict().items():
        exact(value, want[name])


main()
