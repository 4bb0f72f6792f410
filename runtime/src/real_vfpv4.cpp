// ARM of 32 bits with VFPv4: products of real numbers in ONNX Runtime's bits, but for those below the normal ones.
#include "product_kernel.h"
#include "real.h"

namespace rebnn {

void MultiplyWithVfpv4(const RealMatrix& matrix, const RealRows& rows) { Multiply<4, 2>(matrix, rows); }

}  // namespace rebnn
