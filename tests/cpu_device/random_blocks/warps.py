# SPDX-License-Identifier: Apache-2.0
"""Random warp operations: intrinsics on the device, loops over the lanes on the host.

The host first takes what all threads bring (`s`), then gives each that is there what it gets: ALL, or those of `active`."""

from .statements import Statements

LANE = "(tid&31)"
FIRST = "(tid&~31)"  # thread of the warp's lane 0
LANES = "for(int l=0;l<32;l++)"
# Of __reduce_*_sync: where it begins, a step, and the type it takes.
REDUCTIONS = {
    "add": ("0", "r=(int)((unsigned)r+(unsigned)y)", "int"),
    "min": ("INT_MAX", "r=MIN(r,y)", "int"),
    "max": ("INT_MIN", "r=MAX(r,y)", "int"),
    "xor": ("0", "r^=y", "unsigned"),
}


class Warps(Statements):
    """Draws operations that whole warps come to, into `twin`."""

    def warp(self, twin, active=None):
        """`active`: a condition that whole warps share, around it on the device."""
        to, of = self.integer(), self.integer()
        those = f"ALL if({active})" if active else "ALL"
        share = self.random.random()
        if share < 0.5:
            self.shuffle(twin, to, of, those)
        elif share < 0.7:
            self.ballot(twin, to, of, those)
        elif share < 0.85:
            self.reduction(twin, to, of, those)
        elif share < 0.93:
            twin.device(f"v{to}+=__popc(__match_any_sync(~0u,v{of}&7));")
            twin.host(
                f"{{int s[T]; ALL{{int r=0;{LANES}r+=(V[{of}][{FIRST}+l]&7)==(V[{of}][tid]&7);s[tid]=r;}} {those} V[{to}][tid]+=s[tid];}}"
            )
        else:
            twin.device(f"for(int o=16;o;o>>=1) v{to}+=__shfl_down_sync(~0u,v{to},o);")
            twin.host(
                f"for(int o=16;o;o>>=1){{int s[T]; ALL s[tid]=V[{to}][tid]; "
                f"{those} V[{to}][tid]=(int)((unsigned)V[{to}][tid]+(unsigned)s[{LANE}+o<32?tid+o:tid]);}}"
            )

    def shuffle(self, twin, to, of, those):
        kind = self.random.choice(["xor", "down", "up", "idx", "idxv"])
        by = self.between(1, 31)
        if kind == "idxv":
            lane = self.integer()
            twin.device(f"v{to}+=__shfl_sync(~0u,v{of},v{lane}&31);")
            twin.host(
                f"{{int s[T],x[T]; ALL{{s[tid]=V[{of}][tid];x[tid]=V[{lane}][tid];}} {those} V[{to}][tid]+=s[{FIRST}+(x[tid]&31)];}}"
            )
            return
        device, host = {
            "xor": (f"__shfl_xor_sync(~0u,v{of},{by})", f"s[{FIRST}+({LANE}^{by})]"),
            "down": (f"__shfl_down_sync(~0u,v{of},{by})", f"s[{LANE}+{by}<32?tid+{by}:tid]"),
            "up": (f"__shfl_up_sync(~0u,v{of},{by})", f"s[{LANE}>={by}?tid-{by}:tid]"),
            "idx": (f"__shfl_sync(~0u,v{of},{by})", f"s[{FIRST}+{by}]"),
        }[kind]
        assign = self.random.choice(["=", "+=", "^="])
        twin.device(f"v{to}{assign}{device};")
        twin.host(f"{{int s[T]; ALL s[tid]=V[{of}][tid]; {those} V[{to}][tid]{assign}{host};}}")

    def ballot(self, twin, to, of, those):
        bit = self.between(0, 5)
        twin.device(f"v{to}+=(int)(__ballot_sync(~0u,(v{of}>>{bit})&1)>>3);")
        twin.host(
            f"{{unsigned s[T]; ALL{{unsigned b=0;{LANES}b|=(unsigned)((V[{of}][{FIRST}+l]>>{bit})&1)<<l;s[tid]=b;}} "
            f"{those} V[{to}][tid]+=(int)(s[tid]>>3);}}"
        )

    def reduction(self, twin, to, of, those):
        operation = self.random.choice(["add", "min", "max", "xor"])
        start, step, kind = REDUCTIONS[operation]
        twin.device(f"v{to}^=(int)__reduce_{operation}_sync(~0u,({kind})v{of});")
        twin.host(
            f"{{int s[T]; ALL{{int r={start};{LANES}{{int y=V[{of}][{FIRST}+l];{step};}}s[tid]=r;}} {those} V[{to}][tid]^=s[tid];}}"
        )
