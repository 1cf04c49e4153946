/* SPDX-License-Identifier: Apache-2.0
   Parking a claim whose place another is to have (docs/internals/pool.md).
       spin -a pool_park.pml && gcc -O2 -DSAFETY -o pan pan.c && ./pan -m100000
   One GPU, which claim A has and claim B shall have; the host's ledger; a controller that may die
   at any time and knows what it stored. Reports and answers are lost, doubled and late. Checked:
   A and B never have the GPU at once, the host never has to refuse what a controller grants, and
   A, which nobody releases, is never ended.
   Each variant has to fail: -DEARLY (the place counts as free once A was asked to park),
   -DUNSTORED (the answer goes out before what it follows from is stored), -DOLDANSWER (answers to
   older reports count), -DUNASKED (a host brings A back when it likes). */
#define BEATS 5
mtype = { pending, placed, releasing, runs, preempting, parked };
mtype a = runs, b = pending;            /* as the controller has them */
mtype storedA = runs, storedB = pending;
bool aOnGpu = 1, aInHost = 0, bOnGpu = 0; /* as the host has them */
byte beat = 0;                            /* the host's latest */
/* Of the reports and answers under way one each may be read, any number of times. */
byte rBeat = 0; bool rParked, rB;
byte sBeat = 0, sNumber = 0; bool sPark, sB;
byte answers = 0, heard = 0, answered = 0; /* the controller's and the host's counts for a beat */

inline Store() {
#ifdef UNSTORED
  if :: storedA = a; storedB = b :: skip fi
#else
  storedA = a; storedB = b
#endif
}
inline Answer() {
  sBeat = answered; answers++; sNumber = answers; sPark = (a == preempting || a == parked);
  sB = (b == placed)
}

active proctype Host() {
  do
  :: atomic { beat < BEATS -> beat++; heard = 0; rBeat = beat; rParked = aInHost; rB = bOnGpu }
  :: atomic {
#ifdef OLDANSWER
       sBeat > 0 ->
#else
       sBeat > 0 && sBeat == beat && sNumber > heard -> heard = sNumber;
#endif
       if :: !sB -> bOnGpu = 0 :: else fi;             /* first what goes */
       if
       :: sPark && aOnGpu -> if :: aOnGpu = 0; aInHost = 1 :: skip fi  /* done, or not yet */
       :: !sPark && aInHost -> assert(!bOnGpu); aInHost = 0; aOnGpu = 1
       :: else
       fi;
       if :: sB && !bOnGpu -> assert(!aOnGpu); bOnGpu = 1 :: else fi }
#ifdef UNASKED
  :: atomic { aInHost && !bOnGpu -> aInHost = 0; aOnGpu = 1 }
#endif
  od
}

active proctype Controller() {
  do
  :: atomic { rBeat > answered ->                      /* a report: each counts once */
       answered = rBeat; answers = 0;
       if :: a == preempting && rParked -> a = parked; b = placed :: else fi;
       if :: b == releasing && !rB -> b = pending :: else fi;
       Store(); Answer() }
  :: atomic { a == runs && b == pending -> a = preempting;
#ifdef EARLY
       b = placed;
#endif
       Store(); if :: answered > 0 -> Answer() :: else fi }
  :: atomic { b == placed && a == parked -> b = releasing; Store();
       if :: answered > 0 -> Answer() :: else fi }
  :: atomic { a == parked && b == pending -> a = runs; Store();
       if :: answered > 0 -> Answer() :: else fi }
  :: atomic { a == preempting -> a = runs; b = pending; Store();   /* it may stay after all */
       if :: answered > 0 -> Answer() :: else fi }
  :: atomic { a = storedA; b = storedB;                /* it dies; another starts */
       if :: a == preempting -> a = runs :: else fi; answered = beat; answers = 0; sBeat = 0 }
  od
}

active proctype Watch() {
  assert(!(aOnGpu && bOnGpu) && (aOnGpu || aInHost))
}
