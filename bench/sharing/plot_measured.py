# SPDX-License-Identifier: Apache-2.0
"""What was measured of a device, as pictures: what each tenant had over time, and what a high one's iterations took."""

from matplotlib import pyplot


def curves(given, group):
    return [curve for curve in given["curves"] if curve["group"] == group]


def times(given, curve):
    return [given["seconds of a point"] * (i + 0.5) for i in range(len(curve["values"]))]


def plot_shares(given, save):
    found = curves(given, "shares")
    figure, panels = pyplot.subplots(
        1, len(found), figsize=(2.3 * len(found), 2.6), sharey=True, squeeze=False
    )
    for curve, axes in zip(found, panels[0]):
        for i, wanted in enumerate(curve["trial"].split(":")):
            # Of what all had: how busy the machine left the device is not what a share says.
            axes.plot(
                times(given, curve),
                [100 * got[i] / max(sum(got), 1e-9) for got in curve["values"]],
                linewidth=1,
            )
            axes.axhline(float(wanted), color="black", linewidth=0.6, linestyle="--")
        axes.set_title(curve["trial"], fontsize=8)
        axes.set_xlabel("s", fontsize=8)
    panels[0][0].set_ylabel("of all that ran, %", fontsize=8)
    panels[0][0].set_ylim(0, 100)
    save(figure, "Shares over time")


def plot_caps(given, save):
    figure, axes = pyplot.subplots(figsize=(7, 2.8))
    for curve in curves(given, "caps"):
        (line,) = axes.plot(times(given, curve), curve["values"], linewidth=1, label=curve["trial"])
        axes.axhline(
            float(curve["trial"].rstrip("%")), color=line.get_color(), linewidth=0.6, linestyle="--"
        )
    axes.set_xlabel("s", fontsize=8)
    axes.set_ylabel("device time, %", fontsize=8)
    axes.legend(fontsize=7, frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    save(figure, "Limits over time")


def plot_priority(given, save):
    found = curves(given, "priority")
    trials = list(dict.fromkeys(curve["trial"] for curve in found))
    figure, panels = pyplot.subplots(
        1, len(trials), figsize=(3.5 * len(trials), 2.8), squeeze=False
    )
    for trial, axes in zip(trials, panels[0]):
        for curve in found:
            if curve["trial"] == trial:
                took = curve["values"]
                axes.plot(
                    took,
                    [100 * (i + 1) / len(took) for i in range(len(took))],
                    linewidth=1,
                    label=curve["name"],
                )
        axes.set_title(trial, fontsize=8)
        axes.set_xlabel("ms, of an iteration", fontsize=8)
        axes.legend(fontsize=7, frameon=False, loc="lower right")
    panels[0][0].set_ylabel("of its iterations, %", fontsize=8)
    save(figure, "A high task, alone and beside a saturating low one")


def plot_mix(given, save):
    (curve,) = curves(given, "mix")
    figure, axes = pyplot.subplots(figsize=(7, 2.8))
    names = [f"bursts, {part} % busy" for part in (20, 40, 60)] + [
        f"saturates, {us} us" for us in (200, 1000, 4000)
    ]
    axes.stackplot(times(given, curve), list(zip(*curve["values"])), labels=names)
    axes.set_xlabel("s", fontsize=8)
    axes.set_ylabel("of the device, %", fontsize=8)
    axes.legend(fontsize=7, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    save(figure, "Six tasks together")


def plot_all(given, folder, save):
    for group, plot in {
        "shares": plot_shares,
        "caps": plot_caps,
        "priority": plot_priority,
        "mix": plot_mix,
    }.items():
        if curves(given, group):
            plot(
                given,
                lambda figure, title, group=group: save(
                    figure, folder, f"measured-{group}", title, "measured, CPU device"
                ),
            )
