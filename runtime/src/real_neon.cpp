// AArch64. The stem has 16 registers of sums, 4 of weights and the value.
#include "real_kernels.h"

namespace rebnn {
namespace {

constexpr StemKernels kStem = StemEngine<FloatProducts<4, 4, 4>>::Kernels("float32");

}  // namespace

const RealKernels kNeonReal = {kStem, Align<4, 8>, MeanOfSquare, UpsampleAdd};

}  // namespace rebnn
