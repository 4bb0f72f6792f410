#include "lookup.h"

namespace rebnn {
namespace {

constexpr DifferingBits MakeTables() {
  DifferingBits differing = {};
  for (int pixel = 0; pixel < 256; ++pixel) {
    for (int weights = 0; weights < 16; ++weights) {
      for (int bit = 0; bit < 4; ++bit) {
        differing.of[pixel][0][weights] += ((pixel ^ weights) >> bit) & 1;
        differing.of[pixel][1][weights] += ((pixel >> 4 ^ weights) >> bit) & 1;
      }
    }
  }
  return differing;
}

}  // namespace

constexpr DifferingBits kDiffering = MakeTables();

}  // namespace rebnn
