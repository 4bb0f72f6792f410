// What a convolution must give, computed in the plainest way, and random problems to try it on. Shares no code with
// the library.
#ifndef REBNN_TESTS_REFERENCE_H_
#define REBNN_TESTS_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "rebnn.h"

using Random = std::mt19937_64;

inline int64_t Between(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// Real numbers among which those are frequent that a kernel could take for the wrong sign.
inline float AnyReal(Random& random) {
  constexpr float kSpecial[] = {0.0f,
                                -0.0f,
                                std::numeric_limits<float>::denorm_min(),
                                -std::numeric_limits<float>::denorm_min(),
                                -1e-39f,
                                1e-39f,
                                std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity()};
  constexpr int64_t kCount = sizeof kSpecial / sizeof *kSpecial;
  const int64_t choice = Between(random, 0, 4 * kCount);
  if (choice < kCount) return kSpecial[choice];
  if (choice == kCount) return std::copysign(std::numeric_limits<float>::quiet_NaN(), -1.0f);
  return std::normal_distribution<float>()(random);
}

inline std::vector<float> AnyReals(Random& random, int64_t count) {
  std::vector<float> reals(count);
  for (float& real : reals) real = AnyReal(random);
  return reals;
}

// A pointer that no number can be at.
template <class T>
T* OffByOne(T* pointer) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(pointer) + 1);
}

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Signs as +1 and -1 to packed bits, `channels` of them to a row of whole bytes.
inline std::vector<uint8_t> PackSigns(const std::vector<int8_t>& signs, int64_t channels) {
  const int64_t bytes = CeilDiv(channels, 8);
  const int64_t rows = static_cast<int64_t>(signs.size()) / channels;
  std::vector<uint8_t> bits(rows * bytes);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < channels; ++c) {
      if (signs[row * channels + c] < 0) bits[row * bytes + c / 8] |= static_cast<uint8_t>(1 << c % 8);
    }
  }
  return bits;
}

// A description with random weights and a random real input, both in the plain form that the reference reads.
struct Problem {
  rebnn_conv_desc desc;
  int64_t n, h, w;
  int64_t out_h = 0, out_w = 0;
  std::vector<int8_t> weights;  // [out_channels, kernel, kernel, channels of a group]
  std::vector<float> x;         // NHWC
  std::vector<float> shift;     // empty for none

  // Whether the kernel fits; only then the rest is of use.
  bool Fits() const { return out_h > 0 && out_w > 0; }

  Problem(const rebnn_conv_desc& description, int64_t images, int64_t height, int64_t width, Random& random,
          bool shifted)
      : desc(description), n(images), h(height), w(width) {
    const int64_t spare_h = h + desc.pad[0] + desc.pad[2] - (desc.kernel[0] - 1) * desc.dilation[0] - 1;
    const int64_t spare_w = w + desc.pad[1] + desc.pad[3] - (desc.kernel[1] - 1) * desc.dilation[1] - 1;
    out_h = spare_h < 0 ? 0 : spare_h / desc.stride[0] + 1;
    out_w = spare_w < 0 ? 0 : spare_w / desc.stride[1] + 1;
    if (!Fits()) return;
    weights.resize(desc.out_channels * desc.kernel[0] * desc.kernel[1] * (desc.in_channels / desc.group));
    for (int8_t& weight : weights) weight = Between(random, 0, 1) ? 1 : -1;
    x = AnyReals(random, n * h * w * desc.in_channels);
    if (shifted) shift = AnyReals(random, desc.in_channels);
  }

  std::vector<uint8_t> PackedWeights() const { return PackSigns(weights, desc.in_channels / desc.group); }

  // Sign of one input, NaN being positive.
  std::vector<int8_t> Signs() const {
    std::vector<int8_t> signs(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const float real = shift.empty() ? x[i] : x[i] + shift[i % desc.in_channels];
      signs[i] = real < 0 ? -1 : 1;
    }
    return signs;
  }

  std::vector<uint8_t> PackedInput() const { return PackSigns(Signs(), desc.in_channels); }

  int64_t Outputs() const { return n * out_h * out_w * desc.out_channels; }

  std::string Text() const {
    char text[256];
    std::snprintf(
        text, sizeof text,
        "%lldx%lldx%lldx%lld -> %lld channels, group %lld, kernel %lldx%lld, stride %lldx%lld, dilation %lldx%lld, "
        "pad %lld %lld %lld %lld of %d, shift %d",
        (long long)n, (long long)h, (long long)w, (long long)desc.in_channels, (long long)desc.out_channels,
        (long long)desc.group, (long long)desc.kernel[0], (long long)desc.kernel[1], (long long)desc.stride[0],
        (long long)desc.stride[1], (long long)desc.dilation[0], (long long)desc.dilation[1], (long long)desc.pad[0],
        (long long)desc.pad[1], (long long)desc.pad[2], (long long)desc.pad[3], desc.pad_value, !shift.empty());
    return text;
  }

  // The sums, NHWC.
  std::vector<int64_t> Sums() const {
    const std::vector<int8_t> signs = Signs();
    const int64_t group_in = desc.in_channels / desc.group;
    const int64_t group_out = desc.out_channels / desc.group;
    std::vector<int64_t> sums(Outputs());
    int64_t* sum = sums.data();
    for (int64_t image = 0; image < n; ++image) {
      for (int64_t oy = 0; oy < out_h; ++oy) {
        for (int64_t ox = 0; ox < out_w; ++ox) {
          for (int64_t o = 0; o < desc.out_channels; ++o, ++sum) {
            const int8_t* weight = weights.data() + o * desc.kernel[0] * desc.kernel[1] * group_in;
            for (int64_t ky = 0; ky < desc.kernel[0]; ++ky) {
              for (int64_t kx = 0; kx < desc.kernel[1]; ++kx, weight += group_in) {
                const int64_t iy = oy * desc.stride[0] - desc.pad[0] + ky * desc.dilation[0];
                const int64_t ix = ox * desc.stride[1] - desc.pad[1] + kx * desc.dilation[1];
                const bool inside = iy >= 0 && iy < h && ix >= 0 && ix < w;
                const int8_t* sign =
                    inside ? &signs[((image * h + iy) * w + ix) * desc.in_channels + o / group_out * group_in]
                           : nullptr;
                int32_t part = 0;
                if (inside) {
                  for (int64_t c = 0; c < group_in; ++c) part += weight[c] * sign[c];
                } else {
                  for (int64_t c = 0; c < group_in; ++c) part += weight[c] * desc.pad_value;
                }
                *sum += part;
              }
            }
          }
        }
      }
    }
    return sums;
  }
};

// NHWC to NCHW.
template <class T>
std::vector<T> ToPlanes(const std::vector<T>& pixels, int64_t n, int64_t plane, int64_t channels) {
  std::vector<T> planes(pixels.size());
  for (int64_t image = 0; image < n; ++image) {
    for (int64_t p = 0; p < plane; ++p) {
      for (int64_t c = 0; c < channels; ++c) {
        planes[(image * channels + c) * plane + p] = pixels[(image * plane + p) * channels + c];
      }
    }
  }
  return planes;
}

// A convolution of the library that is destroyed with its owner.
struct ConvDeleter {
  void operator()(rebnn_conv* conv) const { rebnn_conv_destroy(conv); }
};
using Conv = std::unique_ptr<rebnn_conv, ConvDeleter>;

inline Conv CreateConv(const Problem& problem) {
  const std::vector<uint8_t> weights = problem.PackedWeights();
  rebnn_conv* conv = nullptr;
  const rebnn_status status = rebnn_conv_create(&problem.desc, weights.data(), weights.size(), &conv);
  CHECK(status == REBNN_OK, "%s: %s", problem.Text().c_str(), rebnn_last_error());
  int64_t out_h = 0, out_w = 0;
  CHECK(rebnn_conv_output_size(conv, problem.h, problem.w, &out_h, &out_w) == REBNN_OK, "%s", rebnn_last_error());
  CHECK(out_h == problem.out_h && out_w == problem.out_w, "%s: output is %lld x %lld", problem.Text().c_str(),
        (long long)out_h, (long long)out_w);
  return Conv(conv);
}

// Memory of exactly the wanted size, aligned as scratch must be, so that a read or write beyond it is caught.
class Scratch {
 public:
  explicit Scratch(size_t bytes) {
#if defined(_WIN32)
    if (bytes) memory_ = _aligned_malloc(bytes, 64);
#else
    if (bytes && posix_memalign(&memory_, 64, bytes)) memory_ = nullptr;
#endif
    CHECK(!bytes || memory_, "no memory for %zu bytes", bytes);
    if (bytes) std::memset(memory_, 0xa5, bytes);
    bytes_ = bytes;
  }
  ~Scratch() {
#if defined(_WIN32)
    _aligned_free(memory_);
#else
    std::free(memory_);
#endif
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* get() const { return memory_; }
  size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

inline size_t ScratchSize(const rebnn_conv* conv, const Problem& problem, size_t threads = 1) {
  size_t bytes = 0;
  CHECK(rebnn_conv_scratch_size(conv, problem.n, problem.h, problem.w, threads, &bytes) == REBNN_OK, "%s",
        rebnn_last_error());
  return bytes;
}

inline void Run(const rebnn_conv* conv, const Problem& problem, rebnn_conv_io io,
                const rebnn_parallel* parallel = nullptr) {
  io.n = problem.n;
  io.h = problem.h;
  io.w = problem.w;
  const Scratch scratch(ScratchSize(conv, problem, parallel ? parallel->threads : 1));
  const rebnn_status status = rebnn_conv_run(conv, &io, scratch.get(), scratch.bytes(), parallel);
  CHECK(status == REBNN_OK, "%s: %s", problem.Text().c_str(), rebnn_last_error());
}

// Steps after the sum. An empty vector leaves its step out.
struct Steps {
  std::vector<float> scale, mul, add, residual, pre, slope, post, next_shift, clip;  // residual NHWC

  // y and the packed bits of y + next_shift.
  void Apply(const Problem& problem, const std::vector<int64_t>& sums, std::vector<float>* y,
             std::vector<uint8_t>* bits) const {
    const int64_t channels = problem.desc.out_channels;
    y->resize(sums.size());
    std::vector<int8_t> signs(sums.size());
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t o = i % channels;
      float value = static_cast<float>(sums[i]);
      if (!scale.empty()) value = value * scale[o];
      if (!mul.empty()) value = value * mul[o];
      if (!add.empty()) value = value + add[o];
      if (!residual.empty()) value = value + residual[i];
      if (!pre.empty()) value = value + pre[o];
      if (!slope.empty()) value = value > 0 ? value : value * slope[o];
      if (!post.empty()) value = value + post[o];
      if (!clip.empty()) value = value < clip[0] ? clip[0] : value > clip[1] ? clip[1] : value;
      (*y)[i] = value;
      const float next = next_shift.empty() ? value : value + next_shift[o];
      signs[i] = next < 0 ? -1 : 1;
    }
    *bits = PackSigns(signs, channels);
  }
};

inline const float* OrNull(const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); }

// The same bits, except that one NaN is as good as another.
inline bool SameReal(float a, float b) { return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof a) == 0; }

inline rebnn_conv_desc Description(int64_t in, int64_t out, int64_t group, int64_t kernel, int64_t stride,
                                   int64_t dilation, int64_t pad, int32_t pad_value) {
  return {in, out, group, {kernel, kernel}, {stride, stride}, {dilation, dilation}, {pad, pad, pad, pad}, pad_value};
}

#endif  // REBNN_TESTS_REFERENCE_H_
