// Marks the part of a program that count_instructions.c counts; nothing on other processors than AArch64. Whole blocks
// are counted, and a jump ends a block: of the marks themselves the last two instructions are counted.
#ifndef REBNN_BOARD_MARKS_H_
#define REBNN_BOARD_MARKS_H_

inline void BeginCounting() {
#if defined(__aarch64__)
  __asm__ volatile("hint #96\n\tb 1f\n1:" ::: "memory");
#endif
}

inline void EndCounting() {
#if defined(__aarch64__)
  __asm__ volatile("b 1f\n1:\thint #97\n\tb 2f\n2:" ::: "memory");
#endif
}

#endif  // REBNN_BOARD_MARKS_H_
