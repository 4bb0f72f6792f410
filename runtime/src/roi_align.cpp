// Region alignment: checks, sizes, and which pixels the samples of a region read.
#include "roi_align.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "error.h"
#include "geometry.h"
#include "isa.h"
#include "memory.h"
#include "tasks.h"

namespace rebnn {
namespace {

// A region that is larger would take seconds.
constexpr float kMostPixels = 1 << 20;
constexpr int64_t kMostSamples = 1024, kMostBins = 1 << 16;

// How many of each there are in a task's memory for one axis.
struct Parts {
  int64_t begins, shares, bytes;
};

// Of a fixed number of samples each reads two pixels at most. Where the number follows from the region's size they go
// up from bin to bin, so that only the two pixels at a border are read for both bins.
Parts PartsOf(const rebnn_roi_align_io& io, int axis) {
  const int64_t side = axis ? io.w : io.h;
  Parts parts = {};
  parts.begins = io.bins[axis] + 1;
  parts.shares = io.sampling_ratio ? 2 * io.sampling_ratio * io.bins[axis] : side + 2 * io.bins[axis];
  const int64_t begins = parts.begins * static_cast<int64_t>(sizeof(int64_t));
  const int64_t shares = parts.shares * static_cast<int64_t>(sizeof(int32_t) + sizeof(float));
  parts.bytes = CeilDiv(begins + shares, kAlignment) * static_cast<int64_t>(kAlignment);
  return parts;
}

int64_t TaskCount(const rebnn_roi_align_io& io, size_t threads) {
  return std::max<int64_t>(std::min<int64_t>(static_cast<int64_t>(threads), io.regions), 1);
}

// One axis of a region, in pixels of the map.
struct Extent {
  float start, size;
};

Extent GivenExtent(const rebnn_roi_align_io& io, int64_t region, int axis) {
  const float* corners = io.rois + 4 * region;
  const float offset = io.half_pixel ? 0.5f : 0.0f;
  const float start = corners[1 - axis] * io.spatial_scale - offset;
  return {start, corners[3 - axis] * io.spatial_scale - offset - start};
}

Extent ExtentOf(const rebnn_roi_align_io& io, int64_t region, int axis) {
  const Extent given = GivenExtent(io, region, axis);
  return {given.start, io.half_pixel ? given.size : std::max(given.size, 1.0f)};
}

int64_t SamplesOf(const rebnn_roi_align_io& io, const Extent& extent, int axis) {
  if (io.sampling_ratio) return io.sampling_ratio;
  // Rounded up, without the function of the mathematical library, which 32-bit ARM would have to link.
  const float pixels = extent.size / static_cast<float>(io.bins[axis]);
  const auto whole = static_cast<int64_t>(pixels);
  return whole + (static_cast<float>(whole) < pixels);
}

// Fills in what the samples read; a sample that is more than a pixel outside of the map reads nothing.
void Share(const rebnn_roi_align_io& io, const Extent& extent, int axis, Shares* shares) {
  const int64_t side = axis ? io.w : io.h, samples = SamplesOf(io, extent, axis);
  const float bin = extent.size / static_cast<float>(io.bins[axis]);
  int64_t end = 0;
  float before = -1.0f;
  for (int64_t i = 0; i < io.bins[axis]; ++i) {
    const int64_t first = end;
    shares->begin[i] = first;
    const auto add = [&](int64_t pixel, float weight) {
      int64_t at = end;
      if (at > first && shares->pixel[at - 1] == pixel) {
        --at;
      } else if (at > first + 1 && shares->pixel[at - 2] == pixel) {
        at -= 2;
      } else {
        shares->pixel[end] = static_cast<int32_t>(pixel);
        shares->weight[end++] = 0.0f;
      }
      shares->weight[at] += weight;
    };
    for (int64_t j = 0; j < samples; ++j) {
      const float inside = (static_cast<float>(j) + 0.5f) * bin / static_cast<float>(samples);
      float place = extent.start + static_cast<float>(i) * bin + inside;
      if (!(place >= -1.0f && place <= static_cast<float>(side))) continue;
      // Far from 0 the rounding of a bin's place could be larger than a sample's distance, and more pixels be read
      // than there is room for.
      if (!io.sampling_ratio) before = place = std::max(place, before);
      place = std::max(place, 0.0f);
      const auto pixel = static_cast<int64_t>(place);
      if (pixel >= side - 1) {
        add(side - 1, 1.0f);
      } else {
        const float share = place - static_cast<float>(pixel);
        add(pixel, 1.0f - share);
        add(pixel + 1, share);
      }
    }
  }
  shares->begin[io.bins[axis]] = end;
}

struct Job {
  const rebnn_roi_align_io* io;
  const RealKernels* kernels;
  uint8_t* scratch;
  Parts parts[2];
  std::atomic<int64_t> next{0};
};

// Regions differ in size, so whoever is free takes the next one.
void Task(void* arg, size_t task) {
  Job& job = *static_cast<Job*>(arg);
  const rebnn_roi_align_io& io = *job.io;
  Region region = {};
  region.w = io.w;
  region.channels = io.channels;
  uint8_t* memory = job.scratch + static_cast<int64_t>(task) * (job.parts[0].bytes + job.parts[1].bytes);
  for (int axis = 0; axis < 2; ++axis) {
    const Parts& parts = job.parts[axis];
    Shares& shares = region.shares[axis];
    region.bins[axis] = io.bins[axis];
    shares.begin = reinterpret_cast<int64_t*>(memory);
    shares.pixel = reinterpret_cast<int32_t*>(shares.begin + parts.begins);
    shares.weight = reinterpret_cast<float*>(shares.pixel + parts.shares);
    memory += parts.bytes;
  }
  for (int64_t i = job.next++; i < io.regions; i = job.next++) {
    int64_t samples = 1;
    for (int axis = 0; axis < 2; ++axis) {
      const Extent extent = ExtentOf(io, i, axis);
      Share(io, extent, axis, &region.shares[axis]);
      samples *= SamplesOf(io, extent, axis);
    }
    region.samples = static_cast<float>(std::max<int64_t>(samples, 1));
    region.image = io.x + io.batch_indices[i] * io.h * io.w * io.channels;
    region.y = io.y + i * io.bins[0] * io.bins[1] * io.channels;
    job.kernels->align(region);
  }
}

bool IsEmpty(const rebnn_roi_align_io& io) { return io.regions == 0 || io.channels == 0; }

rebnn_status CheckSizes(const char* name, const rebnn_roi_align_io& io) {
  const auto invalid = REBNN_INVALID_ARGUMENT;
  const struct {
    const char* what;
    int64_t size, least, most;
  } sizes[] = {{"n", io.n, 0, kMaxSide},
               {"the map's height", io.h, 1, kMaxSide},
               {"the map's width", io.w, 1, kMaxSide},
               {"channels", io.channels, 0, kMaxSide},
               {"the number of regions", io.regions, 0, kMaxSide},
               {"the output's height", io.bins[0], 1, kMostBins},
               {"the output's width", io.bins[1], 1, kMostBins},
               {"sampling_ratio", io.sampling_ratio, 0, kMostSamples}};
  for (const auto& one : sizes) {
    if (one.size < one.least || one.size > one.most) {
      return Fail(invalid, "%s: %s is %lld; it must be from %lld to %lld.", name, one.what,
                  static_cast<long long>(one.size), static_cast<long long>(one.least),
                  static_cast<long long>(one.most));
    }
  }
  const int64_t real = sizeof(float);
  if (Product({io.n, io.h, io.w, io.channels, real}) < 0 ||
      Product({io.regions, io.bins[0], io.bins[1], io.channels, real}) < 0) {
    return Fail(invalid, "%s: the map or the output is larger than memory can be.", name);
  }
  if (!(io.spatial_scale > 0 && std::isfinite(io.spatial_scale))) {
    return Fail(invalid, "%s: spatial_scale is %g; it must be positive and finite.", name,
                static_cast<double>(io.spatial_scale));
  }
  return REBNN_OK;
}

rebnn_status CheckRegions(const char* name, const rebnn_roi_align_io& io) {
  for (int64_t i = 0; i < io.regions; ++i) {
    if (io.batch_indices[i] < 0 || io.batch_indices[i] >= io.n) {
      return Fail(REBNN_INVALID_ARGUMENT, "%s: region %lld is of image %lld, but there are %lld.", name,
                  static_cast<long long>(i), static_cast<long long>(io.batch_indices[i]), static_cast<long long>(io.n));
    }
    for (int axis = 0; axis < 2; ++axis) {
      const Extent extent = GivenExtent(io, i, axis);
      if (!(std::fabs(extent.size) <= kMostPixels && std::isfinite(extent.start))) {
        return Fail(REBNN_INVALID_ARGUMENT,
                    "%s: region %lld reaches from %g to %g; its corners must be finite and at most %g pixels of the "
                    "map apart.",
                    name, static_cast<long long>(i), static_cast<double>(io.rois[4 * i + 1 - axis]),
                    static_cast<double>(io.rois[4 * i + 3 - axis]), static_cast<double>(kMostPixels));
      }
    }
  }
  return REBNN_OK;
}

// Bytes of scratch memory of all tasks.
rebnn_status ScratchBytes(const char* name, const rebnn_roi_align_io& io, size_t threads, int64_t* bytes) {
  *bytes = IsEmpty(io) ? 0 : Product({TaskCount(io, threads), PartsOf(io, 0).bytes + PartsOf(io, 1).bytes});
  if (*bytes >= 0) return REBNN_OK;
  return Fail(REBNN_INVALID_ARGUMENT, "%s: %zu threads need more scratch memory than there can be.", name, threads);
}

}  // namespace
}  // namespace rebnn

rebnn_status rebnn_roi_align_scratch_size(const rebnn_roi_align_io* io, size_t threads, size_t* bytes) {
  const auto name = "rebnn_roi_align_scratch_size";
  if (!io || !bytes) return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: an argument is NULL.", name);
  int64_t needed = 0;
  if (rebnn_status status = rebnn::CheckSizes(name, *io)) return status;
  if (rebnn_status status = rebnn::ScratchBytes(name, *io, threads, &needed)) return status;
  *bytes = static_cast<size_t>(needed);
  return REBNN_OK;
}

rebnn_status rebnn_roi_align_run(const rebnn_roi_align_io* io, void* scratch, size_t scratch_bytes,
                                 const rebnn_parallel* parallel) {
  using namespace rebnn;
  const auto name = "rebnn_roi_align_run";
  const auto invalid = REBNN_INVALID_ARGUMENT;
  if (!io) return Fail(invalid, "%s: io is NULL.", name);
  if (parallel && !parallel->run) return Fail(invalid, "%s: parallel has no run function.", name);
  const size_t threads = parallel ? parallel->threads : 1;
  int64_t needed = 0;
  if (rebnn_status status = CheckSizes(name, *io)) return status;
  if (rebnn_status status = ScratchBytes(name, *io, threads, &needed)) return status;
  Job job;
  job.io = io;
  const Kernels* kernels = ChosenKernels();
  if (!kernels) return invalid;
  job.kernels = &kernels->real;
  if (IsEmpty(*io)) return REBNN_OK;
  if (!io->rois || !io->batch_indices) {
    return Fail(invalid, "%s: %s is NULL.", name, io->rois ? "batch_indices" : "rois");
  }
  if (rebnn_status status = CheckAligned(name, {{"rois", io->rois}, {"batch_indices", io->batch_indices}})) {
    return status;
  }
  if (rebnn_status status = CheckRegions(name, *io)) return status;
  if (!io->x || !io->y) return Fail(invalid, "%s: %s is NULL.", name, io->x ? "y" : "x");
  if (rebnn_status status = CheckAligned(name, {{"x", io->x}, {"y", io->y}})) return status;
  if (rebnn_status status = CheckScratch(name, scratch, scratch_bytes, static_cast<size_t>(needed))) return status;
  job.scratch = static_cast<uint8_t*>(scratch);
  for (int axis = 0; axis < 2; ++axis) job.parts[axis] = PartsOf(*io, axis);
  const int64_t tasks = TaskCount(*io, threads);
  ForEach(parallel, tasks, Task, &job);
  return REBNN_OK;
}
