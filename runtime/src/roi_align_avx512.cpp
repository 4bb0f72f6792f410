// AVX-512.
#include "roi_align_kernel.h"

namespace rebnn {

void AlignAvx512(const Region& region) { Align<16, 8>(region); }

}  // namespace rebnn
