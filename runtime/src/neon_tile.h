// The inner loop of AArch64's largest tile in assembly: 2 pixels of 64 output channels, 16 input channels at a time.
//
// Compilers neither keep to the registers that are free here nor interleave loads with arithmetic in a loop. Registers:
// v0 to v7 weights, v8 and v9 the pixels' words, v10 to v15 what is on its way, v16 to v31 counts in bytes, eight
// output channels of 16 input channels each in two bytes.
//
// Of each iteration the last five or six differences are counted in the next one, so that its first loads have
// something to hide behind; nothing is loaded ahead that might lie beyond the end of the caller's memory.
#ifndef REBNN_SRC_NEON_TILE_H_
#define REBNN_SRC_NEON_TILE_H_

#include <arm_neon.h>

#include "kernels.h"

#define REBNN_EOR(to, pixel, weight) "eor v" #to ".16b, v" #pixel ".16b, v" #weight ".16b\n"
#define REBNN_CNT(at) "cnt v" #at ".16b, v" #at ".16b\n"
#define REBNN_ADD(to, from) "add v" #to ".16b, v" #to ".16b, v" #from ".16b\n"

// What the last differences of an iteration still need.
#define REBNN_BASE_REST(a, b, c, d)                                                          \
  a REBNN_CNT(10) b REBNN_CNT(11) c REBNN_CNT(12) d REBNN_CNT(13) REBNN_CNT(14)              \
  REBNN_ADD(29, 10) REBNN_ADD(22, 11) REBNN_ADD(30, 12) REBNN_ADD(23, 13) REBNN_ADD(31, 14)

#define REBNN_A55_REST(a, b, c, d, e, f)                                                                  \
  a REBNN_CNT(10) b REBNN_CNT(11) c REBNN_CNT(12) d REBNN_CNT(13) e REBNN_CNT(14) f REBNN_CNT(15)         \
  REBNN_ADD(21, 10) REBNN_ADD(29, 11) REBNN_ADD(22, 12) REBNN_ADD(30, 13) REBNN_ADD(23, 14) REBNN_ADD(31, 15)

// As few instructions as there can be: x1, x2 pixels; x10 to x13 weights; x3 counts down.
#define REBNN_BASE_LOOP                                                                                      \
  REBNN_BASE_REST("ld1r {v8.8h}, [x1], #2\n", "ldp q0, q1, [x10], #32\n", "ld1r {v9.8h}, [x2], #2\n",        \
                  "ldp q2, q3, [x11], #32\n")                                                                \
  REBNN_EOR(10, 8, 0) REBNN_EOR(11, 9, 0) REBNN_EOR(12, 8, 1) REBNN_EOR(13, 9, 1) REBNN_EOR(14, 8, 2)        \
  REBNN_EOR(15, 9, 2)                                                                                        \
  "ldp q4, q5, [x12], #32\n" REBNN_CNT(10) "subs x3, x3, #1\n" REBNN_CNT(11) REBNN_CNT(12) REBNN_CNT(13)      \
  REBNN_CNT(14) REBNN_CNT(15)                                                                                \
  REBNN_ADD(16, 10) REBNN_ADD(24, 11) REBNN_ADD(17, 12) REBNN_ADD(25, 13) REBNN_ADD(18, 14) REBNN_ADD(26, 15) \
  REBNN_EOR(10, 8, 3) REBNN_EOR(11, 9, 3) REBNN_EOR(12, 8, 4) REBNN_EOR(13, 9, 4) REBNN_EOR(14, 8, 5)        \
  "ldp q6, q7, [x13], #32\n" REBNN_CNT(10) REBNN_CNT(11) REBNN_CNT(12) REBNN_CNT(13) REBNN_CNT(14)           \
  REBNN_ADD(19, 10) REBNN_ADD(27, 11) REBNN_ADD(20, 12) REBNN_ADD(28, 13) REBNN_ADD(21, 14)                  \
  REBNN_EOR(10, 9, 5) REBNN_EOR(11, 8, 6) REBNN_EOR(12, 9, 6) REBNN_EOR(13, 8, 7) REBNN_EOR(14, 9, 7)

// For the Cortex-A55, which issues in order, one 128-bit operation a cycle and with it one load or one operation on
// addresses that needs no second step: no pairs, no increments, each before a CNT, whose latency is theirs.
// x10 to x17 weights from the index x5.
#define REBNN_A55_LOOP                                                                                       \
  REBNN_A55_REST("ld1r {v8.8h}, [x1]\n", "ldr q0, [x10, x5]\n", "ld1r {v9.8h}, [x2]\n", "ldr q1, [x11, x5]\n", \
                 "ldr q2, [x12, x5]\n", "add x1, x1, #2\n")                                                  \
  REBNN_EOR(10, 8, 0) REBNN_EOR(11, 9, 0) REBNN_EOR(12, 8, 1) REBNN_EOR(13, 9, 1) REBNN_EOR(14, 8, 2)        \
  "ldr q3, [x13, x5]\n" REBNN_CNT(10) "ldr q4, [x14, x5]\n" REBNN_CNT(11) "add x2, x2, #2\n" REBNN_CNT(12)   \
  "subs x3, x3, #1\n" REBNN_CNT(13) REBNN_CNT(14)                                                            \
  REBNN_ADD(16, 10) REBNN_ADD(24, 11) REBNN_ADD(17, 12) REBNN_ADD(25, 13) REBNN_ADD(18, 14)                  \
  REBNN_EOR(10, 9, 2) REBNN_EOR(11, 8, 3) REBNN_EOR(12, 9, 3) REBNN_EOR(13, 8, 4) REBNN_EOR(14, 9, 4)        \
  "ldr q5, [x15, x5]\n" REBNN_CNT(10) "ldr q6, [x16, x5]\n" REBNN_CNT(11) "ldr q7, [x17, x5]\n" REBNN_CNT(12) \
  "add x5, x5, #32\n" REBNN_CNT(13) REBNN_CNT(14)                                                            \
  REBNN_ADD(26, 10) REBNN_ADD(19, 11) REBNN_ADD(27, 12) REBNN_ADD(20, 13) REBNN_ADD(28, 14)                  \
  REBNN_EOR(10, 8, 5) REBNN_EOR(11, 9, 5) REBNN_EOR(12, 8, 6) REBNN_EOR(13, 9, 6) REBNN_EOR(14, 8, 7)        \
  REBNN_EOR(15, 9, 7)

// Adds the counts of two registers to those in 16 bits, of which there are two at `offset`.
#define REBNN_FLUSH(low, high, offset)                                    \
  "ldp q0, q1, [x4, #" #offset "]\n"                                      \
  "uadalp v0.8h, v" #low ".16b\n"                                         \
  "uadalp v1.8h, v" #high ".16b\n"                                        \
  "stp q0, q1, [x4, #" #offset "]\n"
#define REBNN_FLUSH_ALL                                                                                         \
  REBNN_FLUSH(16, 17, 0) REBNN_FLUSH(18, 19, 32) REBNN_FLUSH(20, 21, 64) REBNN_FLUSH(22, 23, 96)               \
  REBNN_FLUSH(24, 25, 128) REBNN_FLUSH(26, 27, 160) REBNN_FLUSH(28, 29, 192) REBNN_FLUSH(30, 31, 224)

#define REBNN_ZERO(n) "movi v" #n ".16b, #0\n"
#define REBNN_ZERO_COUNTS                                                                                        \
  REBNN_ZERO(16) REBNN_ZERO(17) REBNN_ZERO(18) REBNN_ZERO(19) REBNN_ZERO(20) REBNN_ZERO(21) REBNN_ZERO(22)       \
  REBNN_ZERO(23) REBNN_ZERO(24) REBNN_ZERO(25) REBNN_ZERO(26) REBNN_ZERO(27) REBNN_ZERO(28) REBNN_ZERO(29)       \
  REBNN_ZERO(30) REBNN_ZERO(31)

// Rows of words around the loop; x7 words that may still be added to the bytes, x6 words left in the row.
#define REBNN_TILE(addresses, loop, next_row, rest)                                                               \
  asm volatile(addresses "ldp x1, x2, [%[pixels]]\n"                                                              \
               "mov x4, %[wide]\n"                                                                                \
               "mov x7, #31\n" REBNN_ZERO_COUNTS REBNN_ZERO(10) REBNN_ZERO(11) REBNN_ZERO(12) REBNN_ZERO(13)      \
               REBNN_ZERO(14) REBNN_ZERO(15)                                                                      \
               "1:\n"                                                                                             \
               "mov x6, %[words]\n"                                                                               \
               "2:\n"                                                                                             \
               "cmp x6, x7\n"                                                                                     \
               "csel x3, x6, x7, lo\n"                                                                            \
               "sub x6, x6, x3\n"                                                                                 \
               "sub x7, x7, x3\n"                                                                                 \
               "3:\n" loop                                                                                        \
               "b.ne 3b\n"                                                                                        \
               "cbnz x7, 4f\n" REBNN_FLUSH_ALL REBNN_ZERO_COUNTS                                                  \
               "mov x7, #31\n"                                                                                    \
               "4:\n"                                                                                             \
               "cbnz x6, 2b\n"                                                                                    \
               "add x1, x1, %[map_step]\n"                                                                        \
               "add x2, x2, %[map_step]\n" next_row                                                               \
               "subs %[rows], %[rows], #1\n"                                                                      \
               "b.ne 1b\n" rest REBNN_FLUSH_ALL                                                                   \
               : [rows] "+r"(rows)                                                                                \
               : [pixels] "r"(in.pixel), [weights] "r"(in.weights), [block] "r"(in.block_bytes), [wide] "r"(wide), \
                 [words] "r"(in.words), [map_step] "r"(map_step), [weight_step] "r"(weight_step)                  \
               : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", \
                 "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",   \
                 "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",       \
                 "v28", "v29", "v30", "v31", "cc", "memory")

namespace rebnn {
namespace {

// So many words keep every count below 2^16.
constexpr int64_t kTileWords = 4000;

// Counts of 2 pixels and 4 groups: `rows` rows of in.words words that lie side by side, both positive and their product
// at most kTileWords. `wide` is [pixel][8][8].
template <bool kInOrder>
REBNN_INLINE void CountTile(const TileInput& in, uint16x8_t* wide) {
  int64_t rows = in.rows;
  REBNN_UNROLL
  for (int i = 0; i < 16; ++i) wide[i] = vdupq_n_u16(0);
  const int64_t map_step = in.map_row - in.words * 2;
  const int64_t weight_step = in.weight_row - in.words * 32;
  if constexpr (kInOrder) {
    REBNN_TILE(
        "mov x10, %[weights]\n"
        "add x12, x10, %[block]\n"
        "add x14, x12, %[block]\n"
        "add x16, x14, %[block]\n"
        "add x11, x10, #16\n"
        "add x13, x12, #16\n"
        "add x15, x14, #16\n"
        "add x17, x16, #16\n"
        "mov x5, #0\n",
        REBNN_A55_LOOP, "add x5, x5, %[weight_step]\n", REBNN_A55_REST("", "", "", "", "", ""));
  } else {
    REBNN_TILE(
        "mov x10, %[weights]\n"
        "add x11, x10, %[block]\n"
        "add x12, x11, %[block]\n"
        "add x13, x12, %[block]\n",
        REBNN_BASE_LOOP,
        "add x10, x10, %[weight_step]\n"
        "add x11, x11, %[weight_step]\n"
        "add x12, x12, %[weight_step]\n"
        "add x13, x13, %[weight_step]\n",
        REBNN_BASE_REST("", "", "", ""));
  }
}

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_NEON_TILE_H_
