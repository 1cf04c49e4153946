# SPDX-License-Identifier: Apache-2.0
"""plot.py FIGURES.json FOLDER: the simulated figures, or the measured ones, as pictures for docs/internals/sharing.md."""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "farcall"  # the same picture from the same figures
from matplotlib import pyplot  # noqa: E402

import plot_measured  # noqa: E402

NAMES = {
    "farcall": "Farcall's leases",
    "free": "driver's time slices",
    "lock_30s": "lock, 30 s",
    "block_tokens": "block tokens, 1/6 s samples",
    "block_tokens_1s": "block tokens, 1 s samples",
    "sampled_pid": "sampled PID",
    "one_after_another": "one after another",
}


def groups(figures, group):
    """{policy: {trial: {name: value}}}, in order of appearance."""
    found = {}
    for figure in figures:
        if figure["group"] == group:
            found.setdefault(figure["policy"], {}).setdefault(figure["trial"], {})[
                figure["name"]
            ] = figure["value"]
    return found


def bars(axes, values, labels, unit):
    """Bars of each name below one another at each label, with their values: labels are sentences, and some axes logarithmic."""
    width = 0.8 / len(values)
    for i, (name, lengths) in enumerate(values.items()):
        places = [at + (i - (len(values) - 1) / 2) * width for at in range(len(labels))]
        axes.bar_label(
            axes.barh(places, lengths, width, label=name), fmt="%.3g", fontsize=6, padding=2
        )
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.set_xlabel(unit, fontsize=8)
    axes.legend(
        fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(values), frameon=False
    )


def bars_of(found, labels, name, least=0):
    """What `bars` draws: of each policy its values of that name."""
    return {
        NAMES[policy]: [max(trials[label][name], least) for label in labels]
        for policy, trials in found.items()
    }


def save(figure, folder, name, title, how="simulated"):
    figure.suptitle(f"{title} ({how})", fontsize=11)
    figure.tight_layout()
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)


def plot_shares(figures, folder):
    found = groups(figures, "shares")
    figure, axes = pyplot.subplots(figsize=(7, 4.6))
    labels = list(next(iter(found.values())))
    bars(axes, bars_of(found, labels, "mean error over 1 s"), labels, "mean error over 1 s, points")
    axes.set_xscale("log")
    save(figure, folder, "shares", "Error of shares, both backlogged")


def plot_caps(figures, folder):
    found = groups(figures, "caps")
    labels = [trial for trial in next(iter(found.values())) if trial.startswith("30%")]
    figure, axes = pyplot.subplots(figsize=(7, 4.6))
    bars(axes, bars_of(found, labels, "mean"), labels, "device time, %")
    axes.set_yticks(range(len(labels)), [label.split(" of ")[1] for label in labels], fontsize=8)
    axes.axvline(30, color="black", linewidth=0.8, linestyle="--")
    save(figure, folder, "caps", "What a limit of 30 % lets through, by kernel")


def plot_priority(figures, folder):
    found = groups(figures, "priority")
    labels = list(next(iter(found.values())))
    figure, axes = pyplot.subplots(figsize=(7, 4.6))
    bars(
        axes,
        bars_of(found, labels, "high, mean loss", 0.01),
        labels,
        "mean loss of the high task, %",
    )
    axes.set_yticks(
        range(len(labels)),
        [label.replace("; ", ";\n").replace(", low", ",\nlow") for label in labels],
        fontsize=8,
    )
    axes.set_xscale("log")
    save(figure, folder, "priority", "A high task beside a saturating low one")


def plot_mix(figures, folder):
    found = groups(figures, "mix")
    figure, axes = pyplot.subplots(figsize=(7, 2.6))
    names = list(found)
    bars(
        axes,
        {"until all six are done": [found[name]["six tasks"]["total time"] for name in names]},
        [NAMES[name] for name in names],
        "s",
    )
    save(figure, folder, "mix", "Three bursty and three saturating tasks")


def main():
    given = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if not given["simulated"]:
        return plot_measured.plot_all(given, folder, save)
    for plot in (plot_shares, plot_caps, plot_priority, plot_mix):
        plot(given["figures"], folder)


if __name__ == "__main__":
    main()
