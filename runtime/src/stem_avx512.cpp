// AVX-512: 16 registers of sums, 4 of weights and the value.
#include "stem_kernel.h"

namespace rebnn {

using Engine = StemEngine<16, 4, 4>;

const StemKernels kAvx512Stem = {"avx512", 16, Engine::kBlock, 4, Engine::Rows};

}  // namespace rebnn
