// The alignment of regions against sums over its samples, one by one in double precision.
#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "reference.h"

namespace {

// Of the map's largest value: a bin is the mean of many products, taken in another order.
constexpr double kTolerance = 2e-6;

struct Case {
  rebnn_roi_align_io io = {};
  std::vector<float> x, rois;
  std::vector<int64_t> images;

  explicit Case(Random& random) {
    io.n = Between(random, 1, 3), io.h = Between(random, 1, 30), io.w = Between(random, 1, 30);
    io.channels = Between(random, 0, 3) ? Between(random, 1, 20) : Between(random, 60, 150);
    io.regions = Between(random, 0, 8);
    io.bins[0] = Between(random, 1, 7), io.bins[1] = Between(random, 1, 7);
    io.sampling_ratio = Between(random, 0, 3);
    io.spatial_scale = 1.0f / static_cast<float>(int64_t{1} << Between(random, 0, 4));
    io.half_pixel = static_cast<int32_t>(Between(random, 0, 1));
    x = Reals(random, io.n * io.h * io.w * io.channels, -1, 1);
    for (int64_t i = 0; i < io.regions; ++i) {
      images.push_back(Between(random, 0, io.n - 1));
      const std::vector<float> across = Corners(random, io.w), down = Corners(random, io.h);
      for (float corner : {across[0], down[0], across[1], down[1]}) rois.push_back(corner / io.spatial_scale);
    }
    io.x = x.data(), io.rois = rois.data(), io.batch_indices = images.data();
  }

  static std::vector<float> Reals(Random& random, int64_t count, float low, float high) {
    std::uniform_real_distribution<float> uniform(low, high);
    std::vector<float> values(count);
    for (float& value : values) value = uniform(random);
    return values;
  }

  // Of any size, beyond the map, too, and some of no size.
  static std::vector<float> Corners(Random& random, int64_t side) {
    const float length = static_cast<float>(side);
    std::vector<float> two = Reals(random, 2, -0.6f * length, 1.6f * length);
    std::sort(two.begin(), two.end());
    if (Between(random, 0, 9) == 0) two[1] = two[0];
    return two;
  }

  // Where the samples of a bin are along an axis. The numbers are the operator's own, in float32, since a sample that
  // is a hair further out reads nothing.
  std::vector<float> Places(int64_t region, int axis, int64_t bin) const {
    const float offset = io.half_pixel ? 0.5f : 0.0f;
    const float start = rois[4 * region + 1 - axis] * io.spatial_scale - offset;
    float size = rois[4 * region + 3 - axis] * io.spatial_scale - offset - start;
    if (!io.half_pixel) size = std::max(size, 1.0f);
    const float step = size / static_cast<float>(io.bins[axis]);
    const int64_t samples = io.sampling_ratio ? io.sampling_ratio : static_cast<int64_t>(std::ceil(step));
    std::vector<float> places;
    for (int64_t i = 0; i < samples; ++i) {
      const float inside = (static_cast<float>(i) + 0.5f) * step / static_cast<float>(samples);
      places.push_back(start + static_cast<float>(bin) * step + inside);
    }
    return places;
  }

  // What is read at a place: nothing more than a pixel outside, the border's pixel up to there.
  double Sample(int64_t image, float down, float across, int64_t channel) const {
    if (!(down >= -1 && down <= static_cast<float>(io.h) && across >= -1 && across <= static_cast<float>(io.w))) {
      return 0;
    }
    const double places[] = {std::clamp<double>(down, 0, static_cast<double>(io.h - 1)),
                             std::clamp<double>(across, 0, static_cast<double>(io.w - 1))};
    const auto top = static_cast<int64_t>(places[0]), left = static_cast<int64_t>(places[1]);
    double sum = 0;
    for (int64_t row = top; row <= std::min(top + 1, io.h - 1); ++row) {
      for (int64_t column = left; column <= std::min(left + 1, io.w - 1); ++column) {
        const double near = (1 - std::fabs(places[0] - static_cast<double>(row))) *
                            (1 - std::fabs(places[1] - static_cast<double>(column)));
        sum += near * static_cast<double>(x[((image * io.h + row) * io.w + column) * io.channels + channel]);
      }
    }
    return sum;
  }

  double Mean(int64_t region, int64_t row, int64_t column, int64_t channel) const {
    double sum = 0;
    const std::vector<float> down = Places(region, 0, row), across = Places(region, 1, column);
    for (float y : down) {
      for (float x_at : across) sum += Sample(images[region], y, x_at, channel);
    }
    return sum / static_cast<double>(std::max<size_t>(down.size() * across.size(), 1));
  }

  // The largest difference.
  double Run() {
    std::vector<float> y(io.regions * io.bins[0] * io.bins[1] * io.channels);
    io.y = y.data();
    size_t bytes = 0;
    CHECK(rebnn_roi_align_scratch_size(&io, 1, &bytes) == REBNN_OK, "%s", rebnn_last_error());
    const Scratch scratch(bytes);
    CHECK(rebnn_roi_align_run(&io, scratch.get(), bytes, nullptr) == REBNN_OK, "%s", rebnn_last_error());
    double largest = 0;
    const float* found = y.data();
    for (int64_t region = 0; region < io.regions; ++region) {
      for (int64_t bin = 0; bin < io.bins[0] * io.bins[1]; ++bin) {
        for (int64_t channel = 0; channel < io.channels; ++channel, ++found) {
          const double wanted = Mean(region, bin / io.bins[1], bin % io.bins[1], channel);
          const double off = std::fabs(static_cast<double>(*found) - wanted);
          CHECK(off <= kTolerance,
                "region %" PRId64 ", bin %" PRId64 ", channel %" PRId64 " of a map of %" PRId64 "x%" PRId64
                ": %.9g, not %.9g",
                region, bin, channel, io.h, io.w, static_cast<double>(*found), wanted);
          largest = std::max(largest, off);
        }
      }
    }
    return largest;
  }
};

}  // namespace

int main(int count, char** arguments) {
  const char* isa = RequireIsa();
  const int64_t cases = count > 1 ? std::atoll(arguments[1]) : 2000;
  Random random(count > 2 ? std::atoll(arguments[2]) : 1);
  double largest = 0;
  for (int64_t i = 0; i < cases; ++i) largest = std::max(largest, Case(random).Run());
  CHECK(largest > 0, "nothing was compared");
  std::printf("%s: %" PRId64 " cases, off by at most %.1e\n", isa, cases, largest);
}
