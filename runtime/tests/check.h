// Assertions for the test programs: a failed one says where and what, and ends the program with status 1.
#ifndef REBNN_TESTS_CHECK_H_
#define REBNN_TESTS_CHECK_H_

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "rebnn.h"

// What a program exits with when this processor lacks the instruction set it was told to use; ctest and pytest then
// say "skipped".
constexpr int kSkipped = 77;

[[noreturn]] __attribute__((format(printf, 2, 3))) inline void EndTest(const char* where, const char* format, ...) {
  std::fprintf(stderr, "%s: ", where);
  va_list values;
  va_start(values, format);
  std::vfprintf(stderr, format, values);
  va_end(values);
  std::fputc('\n', stderr);
  std::exit(1);
}

#define REBNN_STRING_OF(x) #x
#define REBNN_STRING(x) REBNN_STRING_OF(x)
// The words are only made where they are needed: they cost more than what is checked.
#define CHECK(holds, ...)                                                    \
  do {                                                                       \
    if (!(holds)) EndTest(__FILE__ ":" REBNN_STRING(__LINE__), __VA_ARGS__); \
  } while (0)

// The first line of every program: which kernels it tests.
inline const char* RequireIsa() {
  const char* isa = rebnn_isa();
  if (!isa) {
    std::printf("skipped: %s\n", rebnn_last_error());
    std::exit(kSkipped);
  }
  std::printf("instruction set: %s\n", isa);
  return isa;
}

#endif  // REBNN_TESTS_CHECK_H_
