// What training does with latent weights, each in one pass through memory. Plain C++ for every processor: the time goes
// into reading and writing.
#include <cmath>
#include <cstring>

#include "geometry.h"
#include "rebnn.h"

namespace rebnn {
namespace {

// So many partial sums lie side by side, because the compiler may not change the order of additions itself.
constexpr int64_t kLanes = 16;

double Total(const float* lanes) {
  double total = 0;
  for (int64_t i = 0; i < kLanes; ++i) total += lanes[i];
  return total;
}

// Whether the gradient of a weight passes the mask; that of NaN does not.
bool Passes(float weight, int32_t mask) { return !mask | (std::fabs(weight) <= 1.0f); }

}  // namespace
}  // namespace rebnn

using rebnn::kLanes;

void rebnn_signs(const float* __restrict x, int64_t count, float* __restrict y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] < 0.0f ? -1.0f : 1.0f;
}

void rebnn_pack_weights(const float* weights, int64_t channels, int64_t in_channels, int64_t taps, uint8_t* bits) {
  const int64_t bytes = rebnn::CeilDiv(in_channels, 8);
  for (int64_t i = 0; i < channels; ++i) {
    const float* from = weights + i * in_channels * taps;
    uint8_t* to = bits + i * taps * bytes;
    for (int64_t b = 0; b < bytes; ++b) {
      const int64_t first = 8 * b, count = in_channels - first < 8 ? in_channels - first : 8;
      for (int64_t t = 0; t < taps; ++t) {
        uint32_t byte = 0;
        for (int64_t c = 0; c < count; ++c) byte |= uint32_t{from[(first + c) * taps + t] < 0.0f} << c;
        to[t * bytes + b] = static_cast<uint8_t>(byte);
      }
    }
  }
}

void rebnn_scaled_sign_gradient(int64_t channels, int64_t weights, const float* __restrict latent,
                                const float* alpha, const float* __restrict grad, int32_t mask,
                                float* __restrict grad_latent, float* grad_alpha) {
  for (int64_t i = 0; i < channels; ++i, latent += weights, grad += weights, grad_latent += weights) {
    const float scale = alpha[i];
    for (int64_t j = 0; j < weights; ++j) grad_latent[j] = rebnn::Passes(latent[j], mask) ? grad[j] * scale : 0.0f;
    float sums[kLanes] = {};
    int64_t j = 0;
    for (; j + kLanes <= weights; j += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        sums[lane] += latent[j + lane] < 0.0f ? -grad[j + lane] : grad[j + lane];
      }
    }
    for (; j < weights; ++j) sums[0] += latent[j] < 0.0f ? -grad[j] : grad[j];
    grad_alpha[i] = static_cast<float>(rebnn::Total(sums));
  }
}

void rebnn_measure_channels(int64_t channels, int64_t weights, const float* __restrict latent, const float* alpha,
                            const float* __restrict grad, uint8_t* __restrict negative, float* largest, float* task,
                            float* magnitude, float* distance) {
  for (int64_t i = 0; i < channels; ++i, latent += weights, grad += weights, negative += weights) {
    float maxima[kLanes] = {}, squares[kLanes] = {}, magnitudes[kLanes] = {}, residuals[kLanes] = {};
    const float scale = alpha[i];
    const auto add = [&](int64_t lane, float weight, float pull) {
      const float beyond = weight - scale;
      maxima[lane] = pull > maxima[lane] ? pull : maxima[lane];
      squares[lane] += pull * pull;
      magnitudes[lane] += weight;
      residuals[lane] += beyond * beyond;
    };
    int64_t j = 0;
    for (; j + kLanes <= weights; j += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) add(lane, std::fabs(latent[j + lane]), std::fabs(grad[j + lane]));
    }
    for (; j < weights; ++j) add(0, std::fabs(latent[j]), std::fabs(grad[j]));
    for (j = 0; j < weights; ++j) negative[j] = latent[j] < 0.0f;
    largest[i] = 0;
    for (const float value : maxima) largest[i] = value > largest[i] ? value : largest[i];
    task[i] = static_cast<float>(std::sqrt(rebnn::Total(squares)));
    // No comparison finds NaN, but the sum of squares is NaN if one of them is.
    if (std::isnan(task[i])) largest[i] = task[i];
    magnitude[i] = static_cast<float>(rebnn::Total(magnitudes));
    distance[i] = static_cast<float>(std::sqrt(rebnn::Total(residuals)));
  }
}

void rebnn_add_reconstruction(int64_t channels, int64_t weights, const float* __restrict latent, const float* alpha,
                              const float* gamma, int32_t mask, float* __restrict grad) {
  for (int64_t i = 0; i < channels; ++i, latent += weights, grad += weights) {
    const float scale = alpha[i], factor = gamma[i];
    for (int64_t j = 0; j < weights; ++j) {
      const float passed = rebnn::Passes(latent[j], mask) ? grad[j] : 0.0f;
      const float residual = latent[j] - (latent[j] < 0.0f ? -scale : scale);
      grad[j] = passed + factor * residual;
    }
  }
}

void rebnn_count_flips(int64_t channels, int64_t weights, const float* __restrict latent,
                       const uint8_t* __restrict negative, const uint8_t* __restrict changed_before,
                       uint8_t* __restrict changed, int32_t* flips, int32_t* sequential_flips) {
  for (int64_t i = 0; i < channels; ++i, latent += weights, negative += weights, changed += weights) {
    int32_t count = 0, sequential = 0;
    for (int64_t j = 0; j < weights; ++j) {
      changed[j] = (negative[j] != 0) != (latent[j] < 0.0f);
      count += changed[j];
    }
    if (changed_before) {
      for (int64_t j = 0; j < weights; ++j) sequential += changed[j] & (changed_before[j] != 0);
      changed_before += weights;
    }
    flips[i] = count;
    sequential_flips[i] = sequential;
  }
}
