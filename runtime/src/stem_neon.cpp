// AArch64: 16 registers of sums, 4 of weights and the value.
#include "stem_kernel.h"

namespace rebnn {

using Engine = StemEngine<4, 4, 4>;

const StemKernels kNeonStem = {"neon", 4, Engine::kBlock, 4, Engine::Rows};

}  // namespace rebnn
