// Sharing out the work of a run.
#ifndef REBNN_SRC_TASKS_H_
#define REBNN_SRC_TASKS_H_

#include "rebnn.h"

namespace rebnn {

// Calls task(arg, i) for every i < tasks.
static inline void ForEach(const rebnn_parallel* parallel, int64_t tasks, void (*task)(void*, size_t), void* arg) {
  if (parallel && tasks > 1) {
    parallel->run(parallel->pool, static_cast<size_t>(tasks), task, arg);
  } else {
    for (int64_t i = 0; i < tasks; ++i) task(arg, static_cast<size_t>(i));
  }
}

// Rows of so many numbers that one task works on where they are only read and written, so that handing it over costs
// little next to it.
static inline int64_t RowsPerTask(int64_t row_numbers) {
  constexpr int64_t kTaskNumbers = int64_t{1} << 16;
  return row_numbers < kTaskNumbers ? kTaskNumbers / row_numbers : 1;
}

}  // namespace rebnn

#endif  // REBNN_SRC_TASKS_H_
