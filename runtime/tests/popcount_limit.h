// How many products of two signs one core can add up in a second if it does nothing else.
#ifndef REBNN_TESTS_POPCOUNT_LIMIT_H_
#define REBNN_TESTS_POPCOUNT_LIMIT_H_

// Products per second of this thread's own time in its fastest tenth, for the three steps that every product needs
// (compare, count, add) on registers only: no load, no epilogue, no border.
//
//   avx512:   VPXORD, VPOPCNTD and VPADDD for 512 products
//   avx512bw: two VPSHUFB, each of which compares and counts nibbles, and two VPADDB for 512 products
//   avx2:     the same for 256 products
//   ssse3:    the same for 128, and two MOVDQA, since PSHUFB overwrites its table
//
// 0 for other instruction sets. The processor must have the one that is asked for.
double PopcountLimit(const char* isa);

#endif  // REBNN_TESTS_POPCOUNT_LIMIT_H_
