// The stem against sums in double precision, its borders, layouts and tasks, and what it refuses.
#include <algorithm>
#include <cstring>

#include "reference.h"

namespace {

// Winograd's sums are off by about two units in the last place of the largest; pooling changes nothing about that.
constexpr double kTolerance = 2e-5;
// The transforms add up what was rounded to 16 bits, with factors up to 8.
double HalfTolerance() {
  const std::string type = rebnn_stem_half_type();
  return type == "float16" ? 0.03 : type == "bfloat16" ? 0.15 : kTolerance;
}

struct StemDeleter {
  void operator()(rebnn_stem* stem) const { rebnn_stem_destroy(stem); }
};
using Stem = std::unique_ptr<rebnn_stem, StemDeleter>;

struct Case {
  int64_t n, in, out, h, w;

  std::string Text() const {
    return std::to_string(n) + " x " + std::to_string(in) + " -> " + std::to_string(out) + ", " + std::to_string(h) +
           " x " + std::to_string(w);
  }
};

std::vector<float> Normal(Random& random, int64_t count, float scale) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Problem3 {
  Case size;
  std::vector<float> x, weights, mul, add;

  Problem3(const Case& the_size, Random& random)
      : size(the_size),
        x(Normal(random, size.n * size.in * size.h * size.w, 1.0f)),
        weights(Normal(random, size.out * size.in * 49, 0.1f)),
        mul(Normal(random, size.out, 1.0f)),
        add(Normal(random, size.out, 1.0f)) {}

  int64_t ConvH() const { return (size.h - 1) / 2 + 1; }
  int64_t ConvW() const { return (size.w - 1) / 2 + 1; }
  int64_t OutH() const { return (ConvH() - 1) / 2 + 1; }
  int64_t OutW() const { return (ConvW() - 1) / 2 + 1; }

  double Conv(int64_t image, int64_t o, int64_t row, int64_t col, bool affine) const {
    double sum = 0;
    for (int64_t c = 0; c < size.in; ++c) {
      for (int64_t tap = 0; tap < 49; ++tap) {
        const int64_t y = 2 * row + tap / 7 - 3, x_at = 2 * col + tap % 7 - 3;
        if (y < 0 || x_at < 0 || y >= size.h || x_at >= size.w) continue;
        sum += static_cast<double>(weights[(o * size.in + c) * 49 + tap]) *
               static_cast<double>(x[((image * size.in + c) * size.h + y) * size.w + x_at]);
      }
    }
    return affine ? sum * static_cast<double>(mul[o]) + static_cast<double>(add[o]) : sum;
  }

  // [n, out_h, out_w, out]
  std::vector<double> Expected(bool affine) const {
    std::vector<double> result;
    for (int64_t image = 0; image < size.n; ++image) {
      std::vector<double> map(ConvH() * ConvW() * size.out);
      for (int64_t pixel = 0; pixel < ConvH() * ConvW(); ++pixel) {
        for (int64_t o = 0; o < size.out; ++o) {
          map[pixel * size.out + o] = Conv(image, o, pixel / ConvW(), pixel % ConvW(), affine);
        }
      }
      for (int64_t pixel = 0; pixel < OutH() * OutW(); ++pixel) {
        for (int64_t o = 0; o < size.out; ++o) {
          double largest = -std::numeric_limits<double>::infinity();
          for (int64_t tap = 0; tap < 9; ++tap) {
            const int64_t y = 2 * (pixel / OutW()) + tap / 3 - 1, x_at = 2 * (pixel % OutW()) + tap % 3 - 1;
            if (y < 0 || x_at < 0 || y >= ConvH() || x_at >= ConvW()) continue;
            largest = std::max(largest, map[(y * ConvW() + x_at) * size.out + o]);
          }
          result.push_back(largest);
        }
      }
    }
    return result;
  }
};

// Runs tasks one after the other, the last one first.
void RunBackwards(void* pool, size_t tasks, void (*task)(void*, size_t), void* arg) {
  *static_cast<size_t*>(pool) = std::max(*static_cast<size_t*>(pool), tasks);
  for (size_t i = tasks; i > 0; --i) task(arg, i - 1);
}

// In order, so that each finds what the one before it has left.
void RunForwards(void* pool, size_t tasks, void (*task)(void*, size_t), void* arg) {
  *static_cast<size_t*>(pool) = std::max(*static_cast<size_t*>(pool), tasks);
  for (size_t i = 0; i < tasks; ++i) task(arg, i);
}

std::vector<float> Run(const rebnn_stem* stem, const Problem3& problem, rebnn_layout layout, size_t threads,
                       bool forwards = false) {
  const Case& size = problem.size;
  std::vector<float> y(size.n * problem.OutH() * problem.OutW() * size.out, -7.0f);
  rebnn_stem_io io = {size.n, size.h, size.w, problem.x.data(), layout, y.data()};
  size_t bytes = 0;
  CHECK(rebnn_stem_scratch_size(stem, size.n, size.h, size.w, threads, &bytes) == REBNN_OK, "%s", rebnn_last_error());
  const Scratch scratch(bytes);
  // What another run left there must not matter.
  std::memset(scratch.get(), 0xff, bytes);
  size_t most = 0;
  const rebnn_parallel parallel = {forwards ? RunForwards : RunBackwards, &most, threads};
  const rebnn_status status = rebnn_stem_run(stem, &io, scratch.get(), bytes, threads > 1 ? &parallel : nullptr);
  CHECK(status == REBNN_OK, "%s: %s", size.Text().c_str(), rebnn_last_error());
  CHECK(threads == 1 || size.h < 16 || most > 1, "%s: there was one task only", size.Text().c_str());
  return y;
}

// The largest differences found, of stems in float32 and in half precision.
double worst_of[2];

void Try(const Case& size, Random& random) {
  const Problem3 problem(size, random);
  for (int kind = 0; kind < 4; ++kind) {
    const bool affine = kind % 2 == 1, half = kind >= 2;
    const auto create = half ? rebnn_stem_create_half : rebnn_stem_create;
    rebnn_stem* made = nullptr;
    CHECK(create(size.in, size.out, problem.weights.data(), affine ? problem.mul.data() : nullptr,
                 affine ? problem.add.data() : nullptr, &made) == REBNN_OK,
          "%s", rebnn_last_error());
    const double tolerance = half ? HalfTolerance() : kTolerance;
    const Stem stem(made);
    int64_t h = 0, w = 0;
    CHECK(rebnn_stem_output_size(stem.get(), size.h, size.w, &h, &w) == REBNN_OK && h == problem.OutH() &&
              w == problem.OutW(),
          "%s: the output is %lld x %lld", size.Text().c_str(), (long long)h, (long long)w);
    const std::vector<double> expected = problem.Expected(affine);
    const std::vector<float> y = Run(stem.get(), problem, REBNN_NHWC, 1);
    double largest = 1;
    for (double value : expected) largest = std::max(largest, std::fabs(value));
    double worst = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - expected[i]) / largest);
      const double difference = std::fabs(static_cast<double>(y[i]) - expected[i]);
      CHECK(difference <= tolerance * largest, "%s: y[%zu] is %g, not %g", size.Text().c_str(), i,
            static_cast<double>(y[i]), expected[i]);
    }
    worst_of[half] = std::max(worst_of[half], worst);
    for (bool forwards : {false, true}) {
      CHECK(y == Run(stem.get(), problem, REBNN_NHWC, 3, forwards), "%s: several tasks give another result",
            size.Text().c_str());
    }
    CHECK(ToPlanes(y, size.n, problem.OutH() * problem.OutW(), size.out) == Run(stem.get(), problem, REBNN_NCHW, 1),
          "%s: planes hold other numbers", size.Text().c_str());
  }
}

void Refuses() {
  const std::vector<float> weights(5 * 8 * 49);
  rebnn_stem* made = nullptr;
  const auto refused = [](rebnn_status status, const char* part) {
    CHECK(status == REBNN_INVALID_ARGUMENT && std::strstr(rebnn_last_error(), part), "not refused with '%s': %s", part,
          rebnn_last_error());
  };
  refused(rebnn_stem_create(5, 8, weights.data(), nullptr, nullptr, &made), "in_channels is 5");
  refused(rebnn_stem_create(int64_t{1} << 62, 8, weights.data(), nullptr, nullptr, &made), "in_channels is 46116");
  refused(rebnn_stem_create(3, 0, weights.data(), nullptr, nullptr, &made), "out_channels is 0");
  refused(rebnn_stem_create(3, 8, nullptr, nullptr, nullptr, &made), "weights is NULL");
  refused(rebnn_stem_create(3, 7, OffByOne(weights.data()), nullptr, nullptr, &made), "weights is not aligned");
  refused(rebnn_stem_create(3, 7, weights.data(), nullptr, OffByOne(weights.data()), &made), "add is not aligned");
  if (sizeof(void*) == 4) {
    CHECK(rebnn_stem_create(4, 1 << 24, weights.data(), nullptr, nullptr, &made) == REBNN_OUT_OF_MEMORY,
          "weights that no memory can hold are accepted");
  }
  CHECK(made == nullptr, "something was made");
  CHECK(rebnn_stem_create(3, 8, weights.data(), nullptr, nullptr, &made) == REBNN_OK, "%s", rebnn_last_error());
  const Stem stem(made);
  int64_t side = 0;
  size_t bytes = 0;
  refused(rebnn_stem_output_size(made, 0, 4, &side, &side), "height is 0");
  // Without an image, too: the size of the scratch memory does not depend on how many there are.
  refused(rebnn_stem_scratch_size(made, 0, 2147483647, 2147483647, 1024, &bytes), "more than memory can hold");
  refused(rebnn_stem_scratch_size(made, 1 << 30, 1 << 30, 1 << 30, 1, &bytes), "more than memory can hold");
  CHECK(rebnn_stem_scratch_size(made, 1, 4, 4, 1, &bytes) == REBNN_OK, "%s", rebnn_last_error());
  const Scratch scratch(bytes);
  std::vector<float> x(3 * 16 + 1), y(8 + 1);
  rebnn_stem_io io = {1, 4, 4, x.data(), REBNN_NHWC, y.data()};
  refused(rebnn_stem_run(made, &io, scratch.get(), bytes - 1, nullptr), "scratch has");
  refused(rebnn_stem_run(made, &io, static_cast<char*>(scratch.get()) + 4, bytes, nullptr), "not aligned");
  io.layout = 2;
  refused(rebnn_stem_run(made, &io, scratch.get(), bytes, nullptr), "layout is 2");
  io.layout = REBNN_NHWC;
  io.x = OffByOne(x.data());
  refused(rebnn_stem_run(made, &io, scratch.get(), bytes, nullptr), "x is not aligned");
  io.x = x.data();
  io.y = OffByOne(y.data());
  refused(rebnn_stem_run(made, &io, scratch.get(), bytes, nullptr), "y is not aligned");
  io.y = y.data();
  io.x = nullptr;
  refused(rebnn_stem_run(made, &io, scratch.get(), bytes, nullptr), "x is NULL");
  io.n = 0;
  CHECK(rebnn_stem_run(made, &io, scratch.get(), bytes, nullptr) == REBNN_OK, "%s", rebnn_last_error());
}

}  // namespace

int main() {
  RequireIsa();
  Random random(20231123);
  Refuses();
  int64_t cases = 0;
  for (const Case& size : {Case{1, 3, 64, 32, 32}, Case{2, 3, 64, 33, 47}, Case{1, 1, 5, 1, 1}, Case{1, 2, 17, 7, 90},
                           Case{1, 4, 70, 20, 18}, Case{1, 3, 64, 65, 30}}) {
    Try(size, random);
    ++cases;
  }
  for (int64_t side = 1; side <= 34; side += 3, ++cases) Try({1, 3, 16, side, 35 - side}, random);
  std::printf("%lld cases; of the largest output, float32 is off by at most %.1e, %s by %.1e\n",
              (long long)cases, worst_of[0], rebnn_stem_half_type(), worst_of[1]);
}
