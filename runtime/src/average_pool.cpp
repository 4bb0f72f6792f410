// Average pooling of 2x2 squares: checks, sizes, and which pixels belong to a square.
#include "average_pool.h"

#include "error.h"
#include "geometry.h"
#include "isa.h"
#include "tasks.h"

namespace rebnn {
namespace {

struct Pooling {
  const rebnn_average_pool_io* io;
  const RealKernels* kernels;
  int64_t out_h, out_w;
  int64_t rows_per_task;
};

void Row(const Pooling& run, int64_t row) {
  const rebnn_average_pool_io& io = *run.io;
  const int64_t image = row / run.out_h, y = row % run.out_h;
  const float* above = io.x + (image * io.h + 2 * y) * io.w * io.channels;
  const float* below = 2 * y + 1 < io.h ? above + io.w * io.channels : nullptr;
  float* to = io.y + row * run.out_w * io.channels;
  for (int64_t x = 0; x < run.out_w; ++x, to += io.channels) {
    const int64_t left = 2 * x * io.channels;
    const bool has_right = 2 * x + 1 < io.w;
    Square square = {above + left, nullptr, nullptr, nullptr, 1.0f};
    if (has_right) square.b = square.a + io.channels;
    if (below) square.c = below + left;
    if (has_right && below) square.d = square.c + io.channels;
    square.factor = (has_right ? 0.5f : 1.0f) * (below ? 0.5f : 1.0f);
    run.kernels->mean(square, io.channels, to);
  }
}

void Task(void* arg, size_t i) {
  const Pooling& run = *static_cast<const Pooling*>(arg);
  const int64_t rows = run.io->n * run.out_h, first = static_cast<int64_t>(i) * run.rows_per_task;
  for (int64_t row = first; row < rows && row < first + run.rows_per_task; ++row) Row(run, row);
}

}  // namespace
}  // namespace rebnn

rebnn_status rebnn_average_pool_run(const rebnn_average_pool_io* io, const rebnn_parallel* parallel) {
  using namespace rebnn;
  const auto name = "rebnn_average_pool_run";
  const auto invalid = REBNN_INVALID_ARGUMENT;
  if (!io) return Fail(invalid, "%s: io is NULL.", name);
  if (parallel && !parallel->run) return Fail(invalid, "%s: parallel has no run function.", name);
  if (io->ceil_mode != 0 && io->ceil_mode != 1) {
    return Fail(invalid, "%s: ceil_mode is %d; it must be 0 or 1.", name, static_cast<int>(io->ceil_mode));
  }
  if (rebnn_status status = CheckMap(name, io->n, io->h, io->w, io->channels, 1)) return status;
  const Kernels* kernels = ChosenKernels();
  if (!kernels) return invalid;
  Pooling run = {io, &kernels->real, (io->h + io->ceil_mode) / 2, (io->w + io->ceil_mode) / 2, 1};
  const int64_t rows = io->n * run.out_h, row_numbers = 2 * io->w * io->channels;
  if (rows == 0 || run.out_w == 0 || io->channels == 0) return REBNN_OK;
  if (!io->x || !io->y) return Fail(invalid, "%s: %s is NULL.", name, io->x ? "y" : "x");
  if (rebnn_status status = CheckAligned(name, {{"x", io->x}, {"y", io->y}})) return status;
  run.rows_per_task = RowsPerTask(row_numbers);
  ForEach(parallel, CeilDiv(rows, run.rows_per_task), Task, &run);
  return REBNN_OK;
}
