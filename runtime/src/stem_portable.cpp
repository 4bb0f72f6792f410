// Any processor: vectors of 4, which compilers know to take apart.
#include "stem_kernel.h"

namespace rebnn {

using Engine = StemEngine<4, 2, 2>;

const StemKernels kPortableStem = {"portable", 4, Engine::kBlock, 2, Engine::Rows};

}  // namespace rebnn
