# SPDX-License-Identifier: Apache-2.0
"""Random code of blocks: phases between barriers, warp operations, trees over shared memory, and loops and conditions that all threads share."""

from .twin import Twin
from .warps import Warps

SHARED = ["S0", "S1", "S2"]
ARRAYS = [
    *SHARED,
    "H0",
    "H1",
    "X",
]  # histograms in shared memory, and X in global memory: one element per thread


class Blocks(Warps):
    """Draws the body of a kernel into `twin`. Between two barriers an array is only read, or written by each thread at its own place."""

    def __init__(self, random, threads):
        super().__init__(random, threads)
        self.twin = Twin()

    def block(self, depth, count):
        """`count` parts, in which what holds parts of its own nests `depth` deep."""
        for _ in range(count):
            share = self.random.random()
            if share < 0.4:
                self.phase()
            elif share < 0.6:
                for _ in range(self.between(1, 3)):
                    self.warp(self.twin)
            elif share < 0.68:
                self.tree()
            elif share < 0.78 and depth:
                self.shared_loop(depth)
            elif share < 0.86 and depth:
                self.shared_branch(depth)
            elif share < 0.93:
                self.some_warps()
            else:
                self.loop_of_data()

    def barrier(self):
        share = self.random.random()
        if share < 0.8:
            self.twin.device("__syncthreads();")
        elif share < 0.9:
            self.twin.device("cg::this_thread_block().sync();")
        else:
            to, bit = self.integer(), self.between(1, 3)
            kind = self.random.choice(["or", "and", "count"])
            found = {"or": "q>0", "and": "q==c", "count": "q"}[kind]
            self.twin.device(f"v{to}+=__syncthreads_{kind}((v{to}>>{bit})&1);")
            self.twin.host(
                f"{{int q=0,c=0; ALL{{q+=(V[{to}][tid]>>{bit})&1;c++;}} ALL V[{to}][tid]+={found};}}"
            )

    def phase(self):
        """Statements of the threads by themselves, and a barrier."""
        writes = self.random.sample(ARRAYS, self.between(0, 2))
        reads = [array for array in ARRAYS if array not in writes and array[0] != "H"]
        histograms = [array for array in ARRAYS if array not in writes and array[0] == "H"]
        text = self.body(reads, writes, 2, False)
        if histograms and self.random.random() < 0.4:
            text += f" v{self.integer()}+={self.random.choice(histograms)}[(unsigned)v{self.integer()}%16u];"
        for array in writes:
            if array[0] != "H" and self.random.random() < 0.7:
                factor = self.between(0, self.threads // 2 - 1) * 2 + 1
                text += f" {array}[tid]=(int)((unsigned)v{self.integer()}*{factor}u);"
        self.twin.device("{ " + text + " }")
        self.twin.host("ALL{ REGS " + text + " }")
        self.barrier()

    def tree(self):
        """A reduction where the threads are a power of two, else a scan."""
        array, value, threads = self.random.choice(SHARED), self.integer(), self.threads
        self.twin.device(f"{array}[tid]=v{value}; __syncthreads();")
        self.twin.host(f"ALL {array}[tid]=V[{value}][tid];")
        if threads & (threads - 1) == 0:
            begin = f"for(int o={threads // 2};o>0;o>>=1)"
            self.twin.device(
                f"{begin}{{ if(tid<o) {array}[tid]+={array}[tid+o]; __syncthreads(); }}"
            )
            self.twin.host(
                f"{begin} ALL if(tid<o) {array}[tid]=(int)((unsigned){array}[tid]+(unsigned){array}[tid+o]);"
            )
        else:
            begin, left = f"for(int o=1;o<{threads};o<<=1)", f"tid>=o?{array}[tid-o]:0"
            self.twin.device(
                f"{begin}{{ int x={left}; __syncthreads(); {array}[tid]+=x; __syncthreads(); }}"
            )
            self.twin.host(
                f"{begin}{{ int x[T]; ALL x[tid]={left}; ALL {array}[tid]=(int)((unsigned){array}[tid]+(unsigned)x[tid]); }}"
            )
        found = f"{array}[(unsigned)(tid*3)%{threads}u]"
        self.twin.device(f"v{value}={found}; __syncthreads();")
        self.twin.host(f"ALL V[{value}][tid]={found};")

    def shared_loop(self, depth):
        counter = self.counter("u")
        turns = self.random.choice([str(self.between(1, 4)), "n", "(n+1)", "((int)bid+1)"])
        begin = f"for(int {counter}=0;{counter}<{turns};{counter}++){{"
        with self.twin.within(begin, begin):
            self.add_counter(counter)
            self.block(depth - 1, self.between(1, 3))

    def add_counter(self, counter):
        value = self.integer()
        self.twin.device(f"v{value}+={counter}*3;")
        self.twin.host(f"ALL V[{value}][tid]+={counter}*3;")

    def shared_branch(self, depth):
        begin = f"if({self.random.choice([f'n>{self.between(1, 4)}', '(bid&1)', f'((int)bid+n)%{self.between(2, 3)}==0'])}){{"
        with self.twin.within(begin, begin):
            self.block(depth - 1, self.between(1, 2))
        if self.random.random() < 0.4:
            with self.twin.within("else{", "else{"):
                self.block(depth - 1, 1)

    def some_warps(self):
        """Warp operations to which some warps of the block come."""
        every = self.between(1, 3)
        active = f"((tid>>5)+{self.between(0, 3)})%{every}==0"
        with self.twin.within(f"if({active}){{"):
            for _ in range(self.between(1, 3)):
                self.warp(self.twin, active)

    def loop_of_data(self):
        """A loop with barriers, as often for all threads as shared memory says."""
        array, place = self.random.choice(SHARED), self.between(0, self.threads - 1)
        counter = self.counter("u")
        turns = f"{{ int turns=(unsigned){array}[{place}]%4u; "
        begin = f"for(int {counter}=0;{counter}<turns;{counter}++){{"
        with self.twin.within(f"{turns}__syncthreads(); {begin}", turns + begin, "} }"):
            self.add_counter(counter)
            self.block(0, self.between(1, 2))
