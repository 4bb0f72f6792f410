// What one instruction set offers for real numbers, and for those of 8 bits that stand for some.
#ifndef REBNN_SRC_REAL_H_
#define REBNN_SRC_REAL_H_

#include "average_pool.h"
#include "elements.h"
#include "integer_product.h"
#include "product.h"
#include "roi_align.h"
#include "stem.h"
#include "upsample_add.h"

namespace rebnn {

struct RealKernels {
  const StemKernels& stem;
  // y = sum over a bin's samples / their number.
  void (&align)(const Region& region);
  void (&mean)(const Square& square, int64_t channels, float* y);
  void (&upsample_add)(const UpsampledRow& row);
  void (&multiply)(const RealMatrix& matrix, const RealRows& rows);
  void (&multiply_integers)(const IntegerMatrix& matrix, const IntegerRows& rows);
  const ElementKernels& elements;
  // For a processor that HasDotProducts(). NULL where there are none.
  void (*multiply_bytes)(const IntegerMatrix& matrix, const ByteRows& rows) = nullptr;
};

extern const RealKernels kPortableReal;
#if defined(__x86_64__)
extern const RealKernels kAvx2Real;
extern const RealKernels kAvx512Real;
#elif defined(__aarch64__) || defined(__ARM_PCS_VFP)
extern const RealKernels kNeonReal;
#endif
#if defined(__aarch64__)
void MultiplyBytesWithNeon(const IntegerMatrix& matrix, const ByteRows& rows);
#elif defined(__ARM_PCS_VFP)
extern const RealKernels kVfpv4Real;
extern const StemKernels kNeonStem;
void AlignWithNeon(const Region& region);
void MultiplyIntegersWithNeon(const IntegerMatrix& matrix, const IntegerRows& rows);
void MultiplyWithVfpv4(const RealMatrix& matrix, const RealRows& rows);
#endif

}  // namespace rebnn

#endif  // REBNN_SRC_REAL_H_
