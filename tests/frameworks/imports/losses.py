# SPDX-License-Identifier: Apache-2.0
"""A training on the device against the same on the host, by the loss of each step."""

import numpy as np
from subject import EXECUTES, fact, near, note


def same_losses(name, losses, host_losses):
    """Within a thousandth at each step, with a note of how far apart they come; where no kernel runs they must not be."""
    near(losses, host_losses, rtol=1e-3, atol=0)
    if EXECUTES:
        apart = np.max(np.abs(losses - host_losses) / host_losses)
        note(
            name,
            f"{len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}, at most {apart:.1e} from the host's",
        )
    else:
        fact(
            not np.allclose(losses, host_losses, rtol=1e-3, atol=0),
            "where no kernel runs, the losses are the host's",
        )
