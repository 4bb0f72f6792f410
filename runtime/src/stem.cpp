// The stem of a residual network: checks, arrangement of the weights, and the order of the work.
#include "stem.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "error.h"
#include "geometry.h"
#include "isa.h"
#include "memory.h"

namespace rebnn {
namespace {

constexpr int kKernel = 7;
constexpr int64_t kMaxDepth = 16;
constexpr int64_t kTasksPerThread = 2;

// From 4 taps to the 7 points; the other two matrices are in stem_kernel.h.
constexpr double kTapPoints[kPointSide][4] = {{1 / 2., 0, 0, 0},
                                              {1 / 6., 1 / 6., 1 / 6., 1 / 6.},
                                              {1 / 18., -1 / 18., 1 / 18., -1 / 18.},
                                              {1 / 9., 1 / 18., 1 / 36., 1 / 72.},
                                              {1 / 15., -1 / 30., 1 / 60., -1 / 120.},
                                              {1 / 90., 2 / 90., 4 / 90., 8 / 90.},
                                              {0, 0, 0, 1 / 4.}};

// Of processors whose kernels have a stem for them.
bool HasHalfProducts() {
#if defined(__x86_64__)
  return HasBf16();
#elif defined(__APPLE__)
  return true;  // every Apple silicon has them
#elif defined(__aarch64__) && defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_ASIMDHP;
#else
  return false;
#endif
}

// The stem that belongs to the kernels in use; with products of 16 bits if they are asked for and the processor has
// them.
const StemKernels* ChosenStem(bool half) {
  const Kernels* kernels = ChosenKernels();
  if (!kernels) return nullptr;
  return half && kernels->half_stem && HasHalfProducts() ? kernels->half_stem : &kernels->real.stem;
}

// The tap of the 7x7 kernel that is tap `i` of a phase's four; -1 for the one that even rows do not have.
int Tap(int i, bool odd) { return odd ? 2 * i : 2 * i - 1; }

void ArrangeWeights(rebnn_stem* stem, const float* weights, const float* mul, const float* add) {
  const StemKernels& kernels = *stem->kernels;
  const int64_t block = kernels.block, pairs = kernels.pairs;
  for (int64_t o = 0; o < stem->out_channels; ++o) {
    const double factor = mul ? mul[o] : 1.0;
    if (add) stem->add[o] = add[o];
    double all[kMaxDepth][kPoints];
    double largest = 0;
    for (int64_t k = 0; k < stem->depth; ++k) {
      const float* kernel = weights + (o * stem->in_channels + k / kPhases) * kKernel * kKernel;
      const bool odd_y = k % kPhases < 2, odd_x = k % 2 == 1;
      double half[kPointSide][4] = {};
      for (int y = 0; y < 4; ++y) {
        for (int x = 0; x < 4; ++x) {
          const int tap_y = Tap(y, odd_y), tap_x = Tap(x, odd_x);
          if (tap_y < 0 || tap_x < 0) continue;
          const double value = factor * kernel[tap_y * kKernel + tap_x];
          for (int point = 0; point < kPointSide; ++point) half[point][x] += kTapPoints[point][y] * value;
        }
      }
      for (int point = 0; point < kPoints; ++point) {
        double value = 0;
        for (int x = 0; x < 4; ++x) value += half[point / kPointSide][x] * kTapPoints[point % kPointSide][x];
        if (kernels.scaled) value /= kPointScale[point / kPointSide] * kPointScale[point % kPointSide];
        all[k][point] = value;
        largest = std::fabs(value) > largest ? std::fabs(value) : largest;
      }
    }
    double scale = 1;
    if (kernels.scaled && largest > 0 && std::isfinite(largest)) {
      // Not by frexp and ldexp, which would need the mathematical library.
      constexpr double kMost = 1LL << kLargestWeightBits;
      while (largest * scale >= kMost) scale /= 2;
      while (largest * scale * 2 < kMost) scale *= 2;
    }
    stem->factor[o] = static_cast<float>(1 / scale);
    const int64_t first = o / block * kPoints * stem->depth * block;
    for (int64_t point = 0; point < kPoints; ++point) {
      for (int64_t k = 0; k < stem->depth; ++k) {
        const int64_t at = first + (point * stem->depth + k / pairs * pairs) * block + o % block * pairs + k % pairs;
        kernels.keep(static_cast<float>(all[k][point] * scale), stem->weights, at);
      }
    }
  }
}

// NULL if there is not so much memory.
void* AllocateZeros(std::initializer_list<int64_t> factors) {
  const int64_t bytes = Product(factors);
  void* memory = bytes < 0 ? nullptr : AllocateAligned(static_cast<size_t>(bytes));
  if (memory) std::memset(memory, 0, static_cast<size_t>(bytes));
  return memory;
}

rebnn_status Sizes(const char* function, const rebnn_stem& stem, int64_t n, int64_t h, int64_t w, StemRun* run) {
  const struct {
    const char* what;
    int64_t value, least;
  } fields[] = {{"n", n, 0}, {"the input's height", h, 1}, {"the input's width", w, 1}};
  for (const auto& field : fields) {
    if (field.value < field.least || field.value > kMaxSide) {
      return Fail(REBNN_INVALID_ARGUMENT, "%s: %s is %lld; it must be from %lld to %lld.", function, field.what,
                  static_cast<long long>(field.value), static_cast<long long>(field.least),
                  static_cast<long long>(kMaxSide));
    }
  }
  run->stem = &stem;
  // Kernel 7, stride 2, pad 3; then kernel 3, stride 2, pad 1.
  run->conv_h = (h - 1) / 2 + 1;
  run->conv_w = (w - 1) / 2 + 1;
  run->out_h = (run->conv_h - 1) / 2 + 1;
  run->out_w = (run->conv_w - 1) / 2 + 1;
  run->tile_rows = CeilDiv(run->conv_h, kTileSide);
  run->columns = CeilDiv(CeilDiv(run->conv_w, kTileSide), stem.kernels->tiles) * stem.kernels->tiles;
  const int64_t real = sizeof(float);
  const int64_t padded = stem.blocks * stem.kernels->block, images = n ? n : 1;
  if (Product({images, h, w, stem.in_channels, real}) < 0 ||
      Product({images, run->conv_h, run->columns + 1, kTileSide * padded, real}) < 0) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: %lld images of %lld x %lld pixels are more than memory can hold.",
                function, static_cast<long long>(n), static_cast<long long>(h), static_cast<long long>(w));
  }
  return REBNN_OK;
}

// So many calls work on an image; each has memory of its own.
int64_t TaskCount(const StemRun& run, size_t threads) {
  if (threads <= 1) return 1;
  const int64_t wanted = static_cast<int64_t>(threads < 1024 ? threads : 1024) * kTasksPerThread;
  return wanted < run.tile_rows ? wanted : run.tile_rows;
}

// A task needs the row of the convolution above its own. Where the task before has ended, because one thread does both,
// it is there; otherwise it is computed twice.
typedef std::atomic<bool> Ended;
constexpr int64_t kFlagFloats = kAlignment / sizeof(float);
static_assert(sizeof(Ended) <= kAlignment, "a flag has a line of its own");

struct Job {
  StemRun run;
  int64_t image, tasks, floats;
  float* memory;

  float* Memory(int64_t task) const { return memory + task * floats + kFlagFloats; }
  Ended* Flag(int64_t task) const { return reinterpret_cast<Ended*>(memory + task * floats); }
};

void Task(void* arg, size_t i) {
  const Job& job = *static_cast<const Job*>(arg);
  const int64_t task = static_cast<int64_t>(i);
  const int64_t first = job.run.tile_rows * task / job.tasks, last = job.run.tile_rows * (task + 1) / job.tasks;
  const rebnn_stem& stem = *job.run.stem;
  const float* above = nullptr;
  if (task > 0 && job.Flag(task - 1)->load(std::memory_order_acquire)) {
    above = job.Memory(task - 1) + StemMemory(stem, job.run.columns).Row();
  }
  stem.kernels->rows(job.run, job.image, first, last, above, job.Memory(task));
  job.Flag(task)->store(true, std::memory_order_release);
}

// Floats of memory of one task.
int64_t TaskFloats(const StemRun& run) { return StemMemory(*run.stem, run.columns).All() + kFlagFloats; }

// Bytes of scratch memory of all tasks.
rebnn_status ScratchBytes(const char* name, const StemRun& run, int64_t tasks, size_t* bytes) {
  const int64_t needed = Product({tasks, TaskFloats(run), static_cast<int64_t>(sizeof(float))});
  if (needed < 0) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: %lld tasks need more scratch memory than there can be.", name,
                static_cast<long long>(tasks));
  }
  *bytes = static_cast<size_t>(needed);
  return REBNN_OK;
}

}  // namespace

StemMemory::StemMemory(const rebnn_stem& stem, int64_t columns) {
  const int64_t tiles = stem.kernels->tiles;
  phases = kPointSide * (columns * kTileSide + kPointSide - kTileSide) * stem.padded_depth;
  products = kPoints * tiles * stem.padded_depth;
  sums = kPoints * tiles * stem.kernels->block;
  rows = (kTileSide + 1) * (columns * kTileSide + 2) * stem.blocks * stem.kernels->block;
  // Each part begins on a line of the cache.
  const int64_t line = kAlignment / sizeof(float);
  for (int64_t* part : {&phases, &products, &sums, &rows}) *part = CeilDiv(*part, line) * line;
}

}  // namespace rebnn

namespace {

using namespace rebnn;

rebnn_status Create(const char* name, bool half, int64_t in_channels, int64_t out_channels, const float* weights,
                    const float* mul, const float* add, rebnn_stem** stem) {
  if (!weights || !stem) return Fail(REBNN_INVALID_ARGUMENT, "%s: %s is NULL.", name, weights ? "stem" : "weights");
  *stem = nullptr;
  if (rebnn_status status = CheckAligned(name, {{"weights", weights}, {"mul", mul}, {"add", add}})) return status;
  const StemKernels* kernels = ChosenStem(half);
  if (!kernels) return REBNN_INVALID_ARGUMENT;
  if (in_channels < 1 || in_channels > kMaxDepth / kPhases) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: in_channels is %lld; it must be from 1 to %lld.", name,
                static_cast<long long>(in_channels), static_cast<long long>(kMaxDepth / kPhases));
  }
  if (out_channels < 1 || out_channels > kMaxTerms) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: out_channels is %lld; it must be from 1 to %lld.", name,
                static_cast<long long>(out_channels), static_cast<long long>(kMaxTerms));
  }
  auto* made = static_cast<rebnn_stem*>(std::calloc(1, sizeof(rebnn_stem)));
  if (made) {
    made->kernels = kernels;
    made->in_channels = in_channels;
    made->out_channels = out_channels;
    made->depth = in_channels * kPhases;
    made->padded_depth = CeilDiv(made->depth, kernels->lanes) * kernels->lanes;
    made->blocks = CeilDiv(out_channels, kernels->block);
    const int64_t padded = made->blocks * kernels->block, real = sizeof(float);
    made->weights = AllocateZeros({padded, kPoints, made->depth, static_cast<int64_t>(kernels->weight_bytes)});
    made->factor = static_cast<float*>(AllocateZeros({padded, real}));
    made->add = static_cast<float*>(AllocateZeros({padded, real}));
  }
  if (!made || !made->weights || !made->factor || !made->add) {
    rebnn_stem_destroy(made);
    return Fail(REBNN_OUT_OF_MEMORY, "%s: there is no memory for the weights of %lld output channels.", name,
                static_cast<long long>(out_channels));
  }
  ArrangeWeights(made, weights, mul, add);
  *stem = made;
  return REBNN_OK;
}

}  // namespace

rebnn_status rebnn_stem_create(int64_t in_channels, int64_t out_channels, const float* weights, const float* mul,
                               const float* add, rebnn_stem** stem) {
  return Create("rebnn_stem_create", false, in_channels, out_channels, weights, mul, add, stem);
}

rebnn_status rebnn_stem_create_half(int64_t in_channels, int64_t out_channels, const float* weights, const float* mul,
                                    const float* add, rebnn_stem** stem) {
  return Create("rebnn_stem_create_half", true, in_channels, out_channels, weights, mul, add, stem);
}

const char* rebnn_stem_half_type(void) {
  const rebnn::StemKernels* kernels = rebnn::ChosenStem(true);
  return kernels ? kernels->type : nullptr;
}

void rebnn_stem_destroy(rebnn_stem* stem) {
  if (!stem) return;
  rebnn::FreeAligned(stem->weights);
  rebnn::FreeAligned(stem->factor);
  rebnn::FreeAligned(stem->add);
  std::free(stem);
}

rebnn_status rebnn_stem_output_size(const rebnn_stem* stem, int64_t h, int64_t w, int64_t* out_h, int64_t* out_w) {
  const auto name = "rebnn_stem_output_size";
  if (!stem || !out_h || !out_w) return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: an argument is NULL.", name);
  rebnn::StemRun run = {};
  if (rebnn_status status = rebnn::Sizes(name, *stem, 1, h, w, &run)) return status;
  *out_h = run.out_h;
  *out_w = run.out_w;
  return REBNN_OK;
}

rebnn_status rebnn_stem_scratch_size(const rebnn_stem* stem, int64_t n, int64_t h, int64_t w, size_t threads,
                                     size_t* bytes) {
  const auto name = "rebnn_stem_scratch_size";
  if (!stem || !bytes) return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: an argument is NULL.", name);
  rebnn::StemRun run = {};
  if (rebnn_status status = rebnn::Sizes(name, *stem, n, h, w, &run)) return status;
  return rebnn::ScratchBytes(name, run, rebnn::TaskCount(run, threads), bytes);
}

rebnn_status rebnn_stem_run(const rebnn_stem* stem, const rebnn_stem_io* io, void* scratch, size_t scratch_bytes,
                            const rebnn_parallel* parallel) {
  using namespace rebnn;
  const auto name = "rebnn_stem_run";
  const auto invalid = REBNN_INVALID_ARGUMENT;
  if (!stem || !io) return Fail(invalid, "%s: %s is NULL.", name, stem ? "io" : "stem");
  if (parallel && !parallel->run) return Fail(invalid, "%s: parallel has no run function.", name);
  if (io->layout != REBNN_NCHW && io->layout != REBNN_NHWC) {
    return Fail(invalid, "%s: layout is %d; it must be 0 (NCHW) or 1 (NHWC).", name, static_cast<int>(io->layout));
  }
  Job job = {};
  if (rebnn_status status = Sizes(name, *stem, io->n, io->h, io->w, &job.run)) return status;
  if (io->n == 0) return REBNN_OK;
  if (!io->x || !io->y) return Fail(invalid, "%s: %s is NULL.", name, io->x ? "y" : "x");
  if (rebnn_status status = CheckAligned(name, {{"x", io->x}, {"y", io->y}})) return status;
  job.run.io = io;
  job.tasks = TaskCount(job.run, parallel ? parallel->threads : 1);
  job.floats = TaskFloats(job.run);
  size_t needed = 0;
  if (rebnn_status status = ScratchBytes(name, job.run, job.tasks, &needed)) return status;
  if (rebnn_status status = CheckScratch(name, scratch, scratch_bytes, needed)) return status;
  job.memory = static_cast<float*>(scratch);
  for (job.image = 0; job.image < io->n; ++job.image) {
    for (int64_t i = 0; i < job.tasks; ++i) new (job.Flag(i)) Ended(false);
    if (parallel && job.tasks > 1) {
      parallel->run(parallel->pool, static_cast<size_t>(job.tasks), Task, &job);
    } else {
      for (int64_t i = 0; i < job.tasks; ++i) Task(&job, static_cast<size_t>(i));
    }
  }
  return REBNN_OK;
}
