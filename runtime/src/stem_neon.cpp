// AArch64: 16 registers of sums, 4 of weights and the value.
#include "stem_kernel.h"

namespace rebnn {

const StemKernels kNeonStem = StemEngine<FloatProducts<4, 4, 4>>::Kernels("float32");

}  // namespace rebnn
