// AVX2 with multiply-add: 8 registers of sums, 2 of weights and the value.
#include "stem_kernel.h"

namespace rebnn {

using Engine = StemEngine<8, 2, 4>;

const StemKernels kAvx2Stem = {"avx2", 8, Engine::kBlock, 4, Engine::Rows};

}  // namespace rebnn
