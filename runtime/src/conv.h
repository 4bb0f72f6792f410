// What the C interface hands to the kernels. Included by every file of the library, so nothing here may be a function
// that a compiler could emit: the files are compiled for different processors, and the linker keeps one copy of a
// shared function.
#ifndef REBNN_SRC_CONV_H_
#define REBNN_SRC_CONV_H_

#include "rebnn.h"

// Words of bits are read from bytes by memcpy: bit 8 of a word is bit 0 of its second byte.
#if defined(__BYTE_ORDER__)
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "librebnn needs a processor whose first byte is the lowest");
#endif

namespace rebnn {

// Results are computed for this many output channels at once, whatever the width of the processor's registers.
constexpr int kGroup = 16;

struct Run;
struct Attention;
struct ImageKernels;
struct RealKernels;
struct StemKernels;

// Output rows [first, last) and, of the widest tiles of all groups one after the other, the part with number `part`.
struct Share {
  int64_t first, last;
  int64_t part, parts;
};

// One instruction set. What every one must have is a reference, so that none can be forgotten.
struct Kernels {
  // Channels of a pixel are read in words of this many bytes.
  int word_bytes;
  // Output channels whose words lie side by side in the arranged weights; a multiple of kGroup.
  int block_lanes;
  // Output channels of the widest tile, a multiple of block_lanes.
  int tile_lanes;
  // Copies words of packed input, every second one combined by XOR with the one before it; `to` may be `from`.
  // Pairs of words are counted together then (avx512.cpp). NULL where words are counted one by one.
  void (*pair)(const uint8_t* from, uint8_t* to, int64_t bytes);
  // Packs real input rows [first, last), counted through the images, into run.own_map.
  void (&pack)(const Run& run, int64_t first, int64_t last);
  // Computes a share of one image.
  void (&convolve)(const Run& run, int64_t image, const Share& share);
  // Computes one head of one text, in scratch memory of its own.
  void (&attend)(const Attention& run, int64_t text, int64_t head, uint8_t* scratch);
  const ImageKernels& image;
  const RealKernels& real;
  // The stem with products of 16-bit numbers, for those of its processors that have them; NULL if none has.
  const StemKernels* half_stem;
};

// One run: the caller's pointers and what follows from them.
struct Run {
  const rebnn_conv* conv;
  const rebnn_conv_io* io;
  int64_t out_h, out_w;
  // The packed input, [n, h, w, group, conv->tap_bytes]: the caller's own bits where they have that form and are not
  // paired, else own_map.
  const uint8_t* map;
  uint8_t* own_map;
};

// Bytes that a convolution keeps; -1 for more than memory can hold.
struct ConvBytes {
  int64_t weights, border_sums;
};
ConvBytes BytesOf(const rebnn_conv_desc& desc, const Kernels& kernels);

}  // namespace rebnn

struct rebnn_conv {
  rebnn_conv_desc desc;
  const rebnn::Kernels* kernels;
  int64_t group_in, group_out;  // channels of one group
  int64_t taps;
  int64_t words;      // of one tap
  bool paired;        // by kernels->pair, in the map and in the weights; the number of words is even then
  int64_t tap_bytes;  // words * kernels->word_bytes
  int64_t blocks;     // of one group of channels
  int64_t block_bytes;
  // [group][block][tap][word][lane], lanes beyond the last output channel are 0.
  uint8_t* weights;
  // What a border under the taps above row and left of column adds to each channel, for every row and column up to and
  // with the kernel's sides: [group][block * lanes / kGroup][row][column][kGroup]; NULL where borders add nothing. A
  // rectangle of taps is four of them.
  int32_t* border_sums;
  int64_t border_corners;  // rows times columns
};

#endif  // REBNN_SRC_CONV_H_
