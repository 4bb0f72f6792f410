// AVX2: a pixel and its neighbour are read as 8 bytes, of which 6 are theirs.
#include <immintrin.h>

#include "image_kernel.h"

namespace rebnn {
namespace {

__m128i Eight(const uint8_t* from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); }

// Two pixels, one in each half, as 32-bit numbers.
__m256i Between(const uint8_t* row, const Columns& columns, int64_t i) {
  // Each channel next to itself in the neighbour, as 16-bit numbers.
  const __m256i pairs = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const __m256i bytes = _mm256_set_m128i(Eight(row + columns.left[i + 1]), Eight(row + columns.left[i]));
  const __m256i weights = _mm256_set_m128i(_mm_set1_epi32(columns.weights[i + 1]), _mm_set1_epi32(columns.weights[i]));
  return _mm256_srai_epi32(_mm256_madd_epi16(_mm256_shuffle_epi8(bytes, pairs), weights), 4);
}

void Stretch(const uint8_t* row, const Columns& columns, int16_t* line) {
  int64_t whole = columns.count;
  while (whole > 0 && columns.left[whole - 1] + 8 > columns.row_bytes) --whole;
  int64_t i = 0;
  for (; i + 4 <= whole; i += 4) {
    const __m256i mixed = _mm256_packs_epi32(Between(row, columns, i), Between(row, columns, i + 2));
    const __m256i pixels = _mm256_permute4x64_epi64(mixed, 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(line + 4 * i), pixels);
  }
  StretchFrom(i, row, columns, line);
}

void Halve(const uint8_t* above, const uint8_t* below, int64_t pixels, int16_t* line) {
  int64_t i = 0;
  for (; i + 1 < pixels; ++i) {
    const __m128i sums =
        _mm_add_epi16(_mm_cvtepu8_epi16(Eight(above + 6 * i)), _mm_cvtepu8_epi16(Eight(below + 6 * i)));
    const __m128i four = _mm_add_epi16(sums, _mm_srli_si128(sums, 6));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(line + 4 * i),
                     _mm_srli_epi16(_mm_add_epi16(four, _mm_set1_epi16(2)), 2));
  }
  HalveFrom(i, above, below, pixels, line);
}

void Widen(const uint8_t* row, int64_t pixels, int16_t* line) {
  int64_t i = 0;
  for (; i + 2 < pixels; i += 2) {
    const __m128i two = _mm_shuffle_epi8(
        Eight(row + 3 * i), _mm_setr_epi8(0, -1, 1, -1, 2, -1, -1, -1, 3, -1, 4, -1, 5, -1, -1, -1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(line + 4 * i), two);
  }
  WidenFrom(i, row, pixels, line);
}

}  // namespace

const ImageKernels kImageAvx2 = {Stretch, Blend, Halve, Widen, LookUp};

}  // namespace rebnn
