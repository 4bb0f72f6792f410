// AVX-512.
#include "average_pool_kernel.h"

namespace rebnn {

void MeanAvx512(const Square& square, int64_t channels, float* y) { Mean(square, channels, y); }

}  // namespace rebnn
