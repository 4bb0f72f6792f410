// AVX2 with multiply-add. The stem has 8 registers of sums, 2 of weights and the value.
#include "real_kernels.h"

namespace rebnn {
namespace {

constexpr StemKernels kStem = StemEngine<FloatProducts<8, 2, 4>>::Kernels("float32");

}  // namespace

const RealKernels kAvx2Real = {kStem, Align<8, 8>, MeanOfSquare, UpsampleAdd, Multiply<8, 6>, MultiplyIntegers<4>,
                               kAvx2Elements};

}  // namespace rebnn
