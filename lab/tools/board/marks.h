// Marks the part of a program that count_instructions.c counts; nothing on other processors than ARM's. Whole blocks
// are counted, and a jump ends a block: of the marks themselves the last two instructions are counted.
#ifndef REBNN_BOARD_MARKS_H_
#define REBNN_BOARD_MARKS_H_

#if defined(__aarch64__)
#define REBNN_MARK(number) "hint #" #number "\n\t"
#elif defined(__arm__) && !defined(__thumb__)
#define REBNN_MARK(number) "nop {" #number "}\n\t"
#endif

inline void BeginCounting() {
#if defined(REBNN_MARK)
  __asm__ volatile(REBNN_MARK(96) "b 1f\n1:" ::: "memory");
#endif
}

inline void EndCounting() {
#if defined(REBNN_MARK)
  __asm__ volatile("b 1f\n1:\t" REBNN_MARK(97) "b 2f\n2:" ::: "memory");
#endif
}

#endif  // REBNN_BOARD_MARKS_H_
