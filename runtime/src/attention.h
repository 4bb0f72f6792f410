// Attention of signs on packed bits, written once for every instruction set: two products by the tiles of kernels.h,
// whose "weights" are the keys and then the values of one head.
//
// A position that is not attended to has the bit 1, like a negative number: the scores' bits are that already. With
// these as signs, sum over j of {0, 1}[j] * v[j] = (sum of v + sum of signs * v) / 2.
#ifndef REBNN_SRC_ATTENTION_H_
#define REBNN_SRC_ATTENTION_H_

#include <cstring>

#include "attend.h"
#include "kernels.h"

namespace rebnn {
namespace {

constexpr int kTileLanes = kTileGroups * kGroup;

REBNN_INLINE int64_t Parts(int64_t all, int64_t each) { return (all + each - 1) / each; }

template <class Isa>
struct Attender {
  // Rows of `words` words, in the order in which tiles read weights: [block][word][lane].
  static void Arrange(const uint8_t* map, int64_t rows, int64_t words, uint8_t* weights) {
    constexpr int64_t kWord = Isa::kWordBytes;
    for (int64_t row = 0; row < rows; ++row) {
      uint8_t* block = weights + row / Isa::kBlockLanes * words * Isa::kBlockLanes * kWord;
      for (int64_t word = 0; word < words; ++word) {
        std::memcpy(block + (word * Isa::kBlockLanes + row % Isa::kBlockLanes) * kWord,
                    map + (row * words + word) * kWord, kWord);
      }
    }
  }

  // What is multiplied: `rows` rows of bits with `lanes` arranged ones, `words` words each.
  struct Factors {
    const uint8_t* map;
    int64_t rows;
    const uint8_t* weights;
    int64_t lanes, words;
    int32_t most;         // the sum where no bit differs ...
    const int32_t* more;  // ... and what is added to it for each lane, or NULL
  };

  template <int Q>
  static void Multiply(const Factors& factors, int64_t first, TileOutput& out) {
    const int64_t row_bytes = factors.words * Isa::kWordBytes;
    const int64_t groups = Parts(factors.lanes, Isa::kBlockLanes) * (Isa::kBlockLanes / kGroup);
    TileInput in = {};
    in.block_bytes = row_bytes * Isa::kBlockLanes;
    in.rows = in.cols = 1;
    in.words = factors.words;
    for (; groups - first >= Q; first += Q) {
      const int64_t lane = first * kGroup;
      in.weights = factors.weights + lane / Isa::kBlockLanes * in.block_bytes;
      out.channel = lane;
      for (int q = 0; q < Q; ++q) {
        out.valid[q] = Larger(0, Smaller(kGroup, factors.lanes - lane - q * kGroup));
      }
      for (int i = 0; i < Q * kGroup; ++i) {
        const bool exists = factors.more && lane + i < factors.lanes;
        out.base[i] = factors.most + (exists ? factors.more[lane + i] : 0);
      }
      const int64_t tiles = Parts(factors.rows, Isa::kMaxPixels);
      for (int64_t tile = 0, done = 0; tile < tiles; ++tile) {
        const int64_t pixels = (factors.rows - done) / (tiles - tile);
        for (int64_t p = 0; p < pixels; ++p) {
          out.pixel[p] = done + p;
          out.first[p] = out.pixel[p] * out.channels + out.channel;
          in.pixel[p] = factors.map + (done + p) * row_bytes;
        }
        Engine<Isa>::template TileOf<Q>(pixels)(in, out);
        done += pixels;
      }
    }
    if constexpr (Q * kGroup > Isa::kBlockLanes) Multiply<Q / 2>(factors, first, out);
  }

  // One head of one text.
  static void Attend(const Attention& run, int64_t text, int64_t head, uint8_t* scratch) {
    const rebnn_attention_io& io = *run.io;
    const int64_t length = io.length, size = io.head_size;
    const int64_t stride = io.heads * size;
    const int64_t start = text * length * stride + head * size;
    uint8_t* q = scratch + run.parts.q;
    uint8_t* k = scratch + run.parts.k;
    uint8_t* v = scratch + run.parts.v;
    uint8_t* keys = scratch + run.parts.keys;
    uint8_t* values = scratch + run.parts.values;
    uint8_t* attended = scratch + run.parts.attended;
    int32_t* sums = reinterpret_cast<int32_t*>(scratch + run.parts.sums);
    std::memset(scratch, 0, run.parts.bytes);
    for (int64_t i = 0; i < length; ++i) {
      Packer<Isa>::PackPixel(io.q + start + i * stride, nullptr, size, q + i * run.size_bytes);
      Packer<Isa>::PackPixel(io.k + start + i * stride, nullptr, size, k + i * run.size_bytes);
    }
    for (int64_t c = 0; c < size; c += kGroup) {
      Packer<Isa>::PackPlanes(io.v + start + c, stride, nullptr, length, Smaller(kGroup, size - c),
                              v + c * run.length_bytes, run.length_bytes);
    }
    Arrange(k, length, run.size_bytes / Isa::kWordBytes, keys);
    Arrange(v, size, run.length_bytes / Isa::kWordBytes, values);

    const int64_t size_words = run.size_bytes / Isa::kWordBytes;
    const int64_t length_words = run.length_bytes / Isa::kWordBytes;
    // A row without a bit set is +1 everywhere: its products are the sums of the values' columns.
    TileOutput columns = {};
    columns.nhwc = true;
    columns.sums = sums;
    columns.channels = size;
    const int32_t most = static_cast<int32_t>(length);
    Multiply<Isa::kMaxGroups>({attended, 1, values, size, length_words, most, nullptr}, 0, columns);

    float above[kTileLanes];
    for (float& value : above) value = -0.5f;
    TileOutput scores = {};
    scores.nhwc = true;
    scores.bits = attended;
    scores.bit_bytes = run.length_bytes;
    scores.channels = length;
    scores.next_shift = io.tie ? nullptr : above;
    Multiply<Isa::kMaxGroups>({q, length, keys, length, size_words, static_cast<int32_t>(size), nullptr}, 0, scores);
    if (io.mask) Hide(io.mask + text * length, length, run.length_bytes, attended, scratch + run.parts.hidden);

    float half[kTileLanes];
    for (float& value : half) value = 0.5f;
    TileOutput out = {};
    out.nhwc = true;
    out.y = io.y + start;
    out.channels = stride;
    out.scale = half;
    Multiply<Isa::kMaxGroups>({attended, length, values, size, length_words, most, sums}, 0, out);
  }

  // Sets the bits of positions that the mask excludes, in every row.
  static void Hide(const uint8_t* mask, int64_t length, int64_t row_bytes, uint8_t* rows, uint8_t* hidden) {
    for (int64_t j = 0; j < length; ++j) {
      if (!mask[j]) hidden[j / 8] |= static_cast<uint8_t>(1 << j % 8);
    }
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t b = 0; b < row_bytes; ++b) rows[i * row_bytes + b] |= hidden[b];
    }
  }
};

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_ATTENTION_H_
