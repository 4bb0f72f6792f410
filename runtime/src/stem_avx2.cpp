// AVX2 with multiply-add: 8 registers of sums, 2 of weights and the value.
#include "stem_kernel.h"

namespace rebnn {

const StemKernels kAvx2Stem = StemEngine<FloatProducts<8, 2, 4>>::Kernels("float32");

}  // namespace rebnn
