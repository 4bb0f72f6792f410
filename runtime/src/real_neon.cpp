// ARM. The stem has 16 registers of sums, 4 of weights and the value; half of the sums and weights where addresses have
// 32 bits, whose vectors calculate with numbers below the normal ones as with 0. So only what is not exact is here.
#include "real_kernels.h"

namespace rebnn {
#if defined(__aarch64__)
namespace {

constexpr StemKernels kStem = StemEngine<FloatProducts<4, 4, 4>>::Kernels("float32");

}  // namespace

const RealKernels kNeonReal = {kStem,          Align<4, 8>,         MeanOfSquare,      UpsampleAdd,
                               Multiply<4, 4>, MultiplyIntegers<4>, kPortableElements, MultiplyBytesWithNeon};
#else
const StemKernels kNeonStem = StemEngine<FloatProducts<4, 2, 4>>::Kernels("float32");

void AlignWithNeon(const Region& region) { Align<4, 4>(region); }

void MultiplyIntegersWithNeon(const IntegerMatrix& matrix, const IntegerRows& rows) {
  MultiplyIntegers<2>(matrix, rows);
}
#endif

}  // namespace rebnn
