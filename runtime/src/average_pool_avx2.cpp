// AVX2.
#include "average_pool_kernel.h"

namespace rebnn {

void MeanAvx2(const Square& square, int64_t channels, float* y) { Mean(square, channels, y); }

}  // namespace rebnn
