// AVX2 with multiply-add.
#include "elements_kernel.h"

namespace rebnn {

const ElementKernels kAvx2Elements = kElements;

}  // namespace rebnn
