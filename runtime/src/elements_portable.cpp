// Any processor.
#include "elements_kernel.h"

namespace rebnn {

const ElementKernels kPortableElements = kElements;

}  // namespace rebnn
