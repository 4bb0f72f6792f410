// Any processor: vectors of 4, which compilers know to take apart.
#include "roi_align_kernel.h"

namespace rebnn {

void AlignPortable(const Region& region) { Align<4, 8>(region); }

}  // namespace rebnn
