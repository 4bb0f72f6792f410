// AVX-512. The stem has 16 registers of sums, 4 of weights and the value.
#include "real_kernels.h"

namespace rebnn {
namespace {

constexpr StemKernels kStem = StemEngine<FloatProducts<16, 4, 4>>::Kernels("float32");

}  // namespace

const RealKernels kAvx512Real = {kStem, Align<16, 8>, MeanOfSquare, UpsampleAdd, Multiply<16, 8>, MultiplyIntegers<4>,
                                 kAvx2Elements};

}  // namespace rebnn
