# SPDX-License-Identifier: Apache-2.0
"""Random expressions and conditions: one text that means the same to a thread on the device and to the host's loop over threads."""

INTEGERS = 5  # v0 to v4, each thread's own
FLOATS = 2  # g0 and g1, likewise
INPUTS = 512  # elements of `in`


class Expressions:
    """Draws expressions over a thread's own values, `in`, `n`, `tid`, `bid` and the arrays that the caller says may be read."""

    def __init__(self, random, threads):
        self.random = random
        self.threads = threads  # those of a block that stay

    def between(self, low, high):
        return self.random.randint(low, high)

    def integer(self):
        """The number of one of v0 to v4."""
        return self.between(0, INTEGERS - 1)

    def index(self):
        """A place within an array of one element per thread: affine in the thread's number, wrapping, crossed, or hanging on data."""
        share = self.random.random()
        if share < 0.3:
            return "tid"
        if share < 0.5:
            return f"(tid+{self.between(1, self.threads - 1)})%{self.threads}"
        if share < 0.6:
            return f"(tid^{self.between(1, 31)})%{self.threads}"
        if share < 0.7:
            return f"{self.between(0, self.threads - 1)}"
        if share < 0.8:
            return f"(tid*{self.between(2, 7)}+{self.between(0, 9)})%{self.threads}"
        if share < 0.9:
            return f"{self.threads - 1}-tid"
        return f"(unsigned)v{self.integer()}%{self.threads}u"

    def atom(self, reads):
        share = self.random.random()
        if share < 0.45:
            return f"v{self.integer()}"
        if share < 0.55:
            return "tid"
        if share < 0.62:
            return "(int)bid"
        if share < 0.75:
            return f"({self.between(-9, 99)})"
        if share < 0.9 and reads:
            return f"{self.random.choice(reads)}[{self.index()}]"
        if share < 0.97:
            by = self.random.choice(["tid", "v0", "v1", "v2"])
            return f"in[(unsigned)({by}*{self.between(1, 9)}+{self.between(0, 50)})%{INPUTS}u]"
        return "n"

    def expression(self, reads, depth=2):
        if depth == 0:
            return self.atom(reads)
        left = self.expression(reads, depth - 1)
        right = self.expression(reads, self.between(0, depth - 1))
        share = self.random.random()
        for limit, operation in ((0.25, "+"), (0.4, "-"), (0.52, "*")):
            if share < limit:
                return f"(int)((unsigned)({left}){operation}(unsigned)({right}))"
        if share < 0.62:
            return f"({left}^{right})"
        if share < 0.68:
            return f"({left}&{right})"
        if share < 0.74:
            return f"(({left})>>{self.between(1, 7)})"
        if share < 0.8:
            return f"(int)((unsigned)({left})>>{self.between(1, 20)})"
        if share < 0.86:
            return f"MIN({left},{right})"
        if share < 0.92:
            return f"MAX({left},{right})"
        if share < 0.97:
            return f"(({left})<({right})?{self.atom(reads)}:{self.atom(reads)})"
        return f"(int)((unsigned)({left})%{self.between(3, 97)}u)"

    def condition(self, reads):
        """One that some threads find true and others false, as a rule."""
        share = self.random.random()
        if share < 0.3:
            return f"(tid&{self.random.choice([1, 2, 4, 8, 16, 32, 3])})"
        if share < 0.5:
            return f"tid<{self.between(1, self.threads)}"
        if share < 0.8:
            return f"({self.expression(reads, 1)})%{self.between(2, 5)}==0"
        return f"{self.expression(reads, 1)}<{self.expression(reads, 1)}"
