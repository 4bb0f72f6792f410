// Any processor: vectors of 4, which compilers know to take apart.
#include "real_kernels.h"

namespace rebnn {
namespace {

constexpr StemKernels kStem = StemEngine<FloatProducts<4, 2, 2>>::Kernels("float32");

}  // namespace

const RealKernels kPortableReal = {kStem, Align<4, 8>, MeanOfSquare, UpsampleAdd, Multiply<4, 2>, MultiplyIntegers<2>,
                                   kPortableElements};
#if defined(__ARM_PCS_VFP)
const RealKernels kNeonReal = {kNeonStem,      AlignWithNeon,            MeanOfSquare,     UpsampleAdd,
                               Multiply<4, 2>, MultiplyIntegersWithNeon, kPortableElements};
const RealKernels kVfpv4Real = {kNeonStem,         AlignWithNeon,            MeanOfSquare,     UpsampleAdd,
                                MultiplyWithVfpv4, MultiplyIntegersWithNeon, kPortableElements};
#endif

}  // namespace rebnn
