// Nearest upsampling by 2 and an addition: checks, and which rows belong together.
#include "upsample_add.h"

#include "error.h"
#include "geometry.h"
#include "isa.h"
#include "tasks.h"

namespace rebnn {
namespace {

struct Upsampling {
  const rebnn_upsample_add_io* io;
  const RealKernels* kernels;
  int64_t rows_per_task;
};

void Task(void* arg, size_t i) {
  const Upsampling& run = *static_cast<const Upsampling*>(arg);
  const rebnn_upsample_add_io& io = *run.io;
  const int64_t rows = 2 * io.n * io.h, first = static_cast<int64_t>(i) * run.rows_per_task;
  const int64_t numbers = io.w * io.channels;
  for (int64_t row = first; row < rows && row < first + run.rows_per_task; ++row) {
    // Images have an even number of rows, so that the row of x is half of it, whatever the image.
    run.kernels->upsample_add({io.x + row / 2 * numbers, io.added + row * 2 * numbers, io.w, io.channels,
                               io.y + row * 2 * numbers});
  }
}

}  // namespace
}  // namespace rebnn

rebnn_status rebnn_upsample_add_run(const rebnn_upsample_add_io* io, const rebnn_parallel* parallel) {
  using namespace rebnn;
  const auto name = "rebnn_upsample_add_run";
  const auto invalid = REBNN_INVALID_ARGUMENT;
  if (!io) return Fail(invalid, "%s: io is NULL.", name);
  if (parallel && !parallel->run) return Fail(invalid, "%s: parallel has no run function.", name);
  if (rebnn_status status = CheckMap(name, io->n, io->h, io->w, io->channels, 4)) return status;
  const Kernels* kernels = ChosenKernels();
  if (!kernels) return invalid;
  const int64_t row_numbers = 2 * io->w * io->channels;
  if (io->n == 0 || io->h == 0 || row_numbers == 0) return REBNN_OK;
  if (!io->x || !io->added || !io->y) {
    return Fail(invalid, "%s: %s is NULL.", name, !io->x ? "x" : !io->added ? "added" : "y");
  }
  if (rebnn_status status = CheckAligned(name, {{"x", io->x}, {"added", io->added}, {"y", io->y}})) return status;
  Upsampling run = {io, &kernels->real, RowsPerTask(row_numbers)};
  ForEach(parallel, CeilDiv(2 * io->n * io->h, run.rows_per_task), Task, &run);
  return REBNN_OK;
}
