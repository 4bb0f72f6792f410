// Any processor: vectors of 4, which compilers know to take apart.
#include "stem_kernel.h"

namespace rebnn {

const StemKernels kPortableStem = StemEngine<FloatProducts<4, 2, 2>>::Kernels("float32");

}  // namespace rebnn
