// The loops over real numbers, for one instruction set: each file that includes this is compiled for its own.
#ifndef REBNN_SRC_REAL_KERNELS_H_
#define REBNN_SRC_REAL_KERNELS_H_

#include "average_pool_kernel.h"
#include "integer_product_kernel.h"
#include "product_kernel.h"
#include "real.h"
#include "roi_align_kernel.h"
#include "stem_kernel.h"
#include "upsample_add_kernel.h"

#endif  // REBNN_SRC_REAL_KERNELS_H_
