// Any processor.
#include "image_kernel.h"

namespace rebnn {
namespace {

void Stretch(const uint8_t* row, const Columns& columns, int16_t* line) { StretchFrom(0, row, columns, line); }

void Halve(const uint8_t* above, const uint8_t* below, int64_t pixels, int16_t* line) {
  HalveFrom(0, above, below, pixels, line);
}

void Widen(const uint8_t* row, int64_t pixels, int16_t* line) { WidenFrom(0, row, pixels, line); }

}  // namespace

const ImageKernels kImagePortable = {Stretch, Blend, Halve, Widen, LookUp};

}  // namespace rebnn
