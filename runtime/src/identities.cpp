#include "identities.h"

#include <algorithm>
#include <cmath>

namespace rebnn {
namespace {

bool AreAll(const float* values, int64_t count, float expected) {
  return std::all_of(values, values + count, [=](float value) { return value == expected; });
}

bool IsNegativeZero(float value) { return value == 0 && std::signbit(value); }

}  // namespace

void SkipIdentities(int64_t in_channels, int64_t out_channels, rebnn_conv_io* io) {
  const auto skip_if = [](const float** values, int64_t count, float identity) {
    if (*values && AreAll(*values, count, identity)) *values = nullptr;
  };
  // Of a sum with these only the sign counts, and that of 0 does not.
  skip_if(&io->shift, in_channels, 0);
  skip_if(&io->next_shift, out_channels, 0);
  skip_if(&io->scale, out_channels, 1);
  skip_if(&io->mul, out_channels, 1);
  // Adding +0 leaves every number as it is but -0, which becomes +0. A sum is -0 only if both of its terms are.
  bool may_be_negative_zero = true;
  const auto skip_term_if_zero = [&](const float** values) {
    if (!*values) return;
    const auto negative = std::count_if(*values, *values + out_channels, IsNegativeZero);
    if (negative == out_channels || !may_be_negative_zero) skip_if(values, out_channels, 0);
    if (negative == 0) may_be_negative_zero = false;
  };
  skip_term_if_zero(&io->add);
  skip_term_if_zero(&io->pre);
  // A product with it may be -0.
  if (!io->slope || !AreAll(io->slope, out_channels, 1)) may_be_negative_zero = true;
  skip_if(&io->slope, out_channels, 1);
  skip_term_if_zero(&io->post);
}

}  // namespace rebnn
