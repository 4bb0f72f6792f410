// AVX2 with multiply-add.
#include "roi_align_kernel.h"

namespace rebnn {

void AlignAvx2(const Region& region) { Align<8, 8>(region); }

}  // namespace rebnn
