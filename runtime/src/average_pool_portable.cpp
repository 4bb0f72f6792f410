// Any processor.
#include "average_pool_kernel.h"

namespace rebnn {

void MeanPortable(const Square& square, int64_t channels, float* y) { Mean(square, channels, y); }

}  // namespace rebnn
