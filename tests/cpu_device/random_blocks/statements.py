# SPDX-License-Identifier: Apache-2.0
"""Random statements that a thread does by itself: the same text on the device and in the host's loop over threads."""

from .expressions import FLOATS, INPUTS, Expressions


class Statements(Expressions):
    """Draws statements in which a thread writes its own values, its own elements of arrays, and histograms by atomics."""

    def __init__(self, random, threads):
        super().__init__(random, threads)
        self.counters = 0

    def counter(self, letter):
        """A loop variable's name of its own."""
        self.counters += 1
        return f"{letter}{self.counters}"

    def body(self, reads, writes, depth, in_loop):
        return " ".join(
            self.statement(reads, writes, depth, in_loop) for _ in range(self.between(1, 3))
        )

    def statement(self, reads, writes, depth, in_loop):
        """`reads` and `writes` are arrays' names with none in common; `depth` bounds how far conditions and loops nest."""
        share = self.random.random()
        if share < 0.40:
            return f"v{self.integer()}={self.expression(reads, self.between(1, 2))};"
        if share < 0.50:
            return self.float_step()
        if share < 0.60 and writes:
            return self.store(reads, writes)
        if share < 0.64 and in_loop:
            return f"if({self.condition(reads)}) {self.random.choice(['break', 'continue'])};"
        if share < 0.84 and depth:
            return self.branch(reads, writes, depth, in_loop)
        if depth:
            return self.loop(reads, writes, depth)
        return f"v{self.integer()}^={self.expression(reads, 1)};"

    def float_step(self):
        """Sums and products of floats that are rounded alike on both sides."""
        which = self.between(0, FLOATS - 1)
        share = self.random.random()
        if share < 0.3:
            return f"g{which}=FA(FM(g{self.between(0, FLOATS - 1)},{self.between(1, 9)}.25f),(float)(v{self.integer()}&1023));"
        if share < 0.5:
            return f"g{which}=FM(g{which},0.0625f);"
        if share < 0.7:
            return f"v{self.integer()}+=((g{which}>-1e8f && g{which}<1e8f)?(int)g{which}:7)&255; g{which}=FM(g{which},1e-3f);"
        return f"g{which}=g0<g1?FA(g{which},1.5f):FM(g{1 - which},0.5f);"

    def store(self, reads, writes):
        array = self.random.choice(writes)
        if array[0] == "H":
            return f"ATOMIC({array},(unsigned)v{self.integer()}%16u,{self.expression(reads, 1)});"
        return f"{array}[tid]={self.expression(reads, 1)};"

    def branch(self, reads, writes, depth, in_loop):
        text = f"if({self.condition(reads)}){{ {self.body(reads, writes, depth - 1, in_loop)} }}"
        if self.random.random() < 0.5:
            text += f" else {{ {self.body(reads, writes, depth - 1, in_loop)} }}"
        return text

    def loop(self, reads, writes, depth):
        """A loop whose turns are a thread's own, or over `in` with the stride of the block."""
        counter = self.counter("k")
        share = self.random.random()
        if share < 0.4:
            turns = f"(v{self.integer()}&{self.random.choice([3, 7])})"
        elif share < 0.7:
            turns = str(self.between(1, 6))
        elif share < 0.85:
            turns = f"tid%{self.between(2, 6)}"
        else:
            turns = "n"
        if self.random.random() < 0.25:
            end = self.between(1, 4) * self.threads - self.between(0, 20)
            return (
                f"for(int {counter}=tid;{counter}<{end};{counter}+={self.threads})"
                f"{{ v{self.integer()}+=in[{counter}%{INPUTS}]*{self.between(1, 5)}; v{self.integer()}^={counter}; }}"
            )
        return (
            f"for(int {counter}=0;{counter}<{turns};{counter}++)"
            f"{{ v{self.integer()}+={counter}*{self.between(1, 7)}; {self.body(reads, writes, depth - 1, True)} }}"
        )
