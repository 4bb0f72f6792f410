// AVX-512: 16 registers of sums, 4 of weights and the value.
#include "stem_kernel.h"

namespace rebnn {

const StemKernels kAvx512Stem = StemEngine<FloatProducts<16, 4, 4>>::Kernels("float32");

}  // namespace rebnn
