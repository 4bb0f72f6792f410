// Convolution of packed bits and what follows it, written once for every instruction set. A file per instruction set
// includes this, defines a class with its vector operations and instantiates Packer (pack.h) and Engine with it.
//
// Everything is in an unnamed namespace and nothing of the standard library's templates is called: such a file is
// compiled for a processor that the program may not run on, and a function with external linkage could be the copy
// that the linker keeps for all.
//
// An instruction set `Isa` has
// - kWordBytes and kBlockLanes, as in Kernels;
// - kMaxPixels and kMaxGroups, the output pixels and groups of kGroup channels of the largest tile, whose counts stay
//   in registers;
// - Ints and Floats, kGroup numbers each;
// - Accumulate<P, Q>, which counts the differing bits of P pixels and Q groups;
// - the few operations on Ints and Floats that are used below.
#ifndef REBNN_SRC_KERNELS_H_
#define REBNN_SRC_KERNELS_H_

#include <cstring>

#include "pack.h"

namespace rebnn {
namespace {

constexpr int kTilePixels = 8;  // no instruction set has more
constexpr int kTileGroups = 4;

// What one tile reads to count differing bits: at every pixel `rows` x `cols` pieces of `words` words.
struct TileInput {
  const uint8_t* pixel[kTilePixels];
  const uint8_t* weights;
  int64_t block_bytes;  // from one block of weights to the next
  int64_t rows, cols, words;
  bool paired;  // the words, which are an even number then
  int64_t map_row, map_col;  // bytes from one piece to the next, in the map and in the weights
  int64_t weight_row, weight_col;
};

// What a tile does with its counts. Parameters of channels begin at the tile's first channel and cover whole groups.
struct TileOutput {
  int32_t base[kTileGroups * kGroup];  // the sum where no bit differs
  const float *scale, *mul, *add, *pre, *slope, *post, *next_shift;
  const float* clip;  // the same two for every channel
  const float* residual;  // the image's, like the four that follow
  float* y;
  int32_t* sums;
  uint8_t* bits;
  int64_t bit_bytes;  // of one pixel
  int64_t channel, channels, plane;
  bool nhwc;
  int64_t pixel[kTilePixels];  // row * out_w + column
  int64_t first[kTilePixels];  // of the tile's channels at the pixel, where channels lie side by side
  int64_t valid[kTileGroups];  // channels of each group that exist
  bool whole;  // channels side by side, every group whole and in bytes of its own, no sums wanted: most tiles
  bool far;  // the residual and y are fetched while the bits of their tile are counted
};

// A residual of so many bytes or more is not near the core any more when its layer begins.
constexpr int64_t kFarBytes = int64_t{1} << 19;

// kGroup channels of some pixels where each channel is a plane of its own; `valid` of them exist.
template <class Isa>
struct AnyPlanes {
  using Floats = typename Isa::Floats;

  template <int P>
  static REBNN_INLINE void Load(const float* from, const TileOutput& out, int64_t valid, Floats (&value)[P]) {
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      float part[kGroup] = {};
      for (int64_t i = 0; i < valid; ++i) part[i] = from[i * out.plane + out.pixel[p]];
      value[p] = Isa::Load(part);
    }
  }

  template <int P>
  static REBNN_INLINE void Store(float* to, const TileOutput& out, int64_t valid, const Floats (&value)[P]) {
    float part[P][kGroup];
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) Isa::Store(part[p], value[p]);
    for (int64_t i = 0; i < valid; ++i) {
      float* plane = to + i * out.plane;
      for (int p = 0; p < P; ++p) plane[out.pixel[p]] = part[p][i];
    }
  }
};

// For an instruction set that can turn rows into columns to specialise.
template <class Isa>
struct Planes : AnyPlanes<Isa> {};

// How many bits differ at each pixel and output channel of a tile. Specialised where they wait in memory.
template <class Isa, int P, int Q>
struct Counts {
  typename Isa::Ints value[P][Q];

  REBNN_INLINE void Count(const TileInput& in) { Isa::template Accumulate<P, Q>(in, value); }
  REBNN_INLINE const typename Isa::Ints& Get(int p, int q) const { return value[p][q]; }
};

template <class Isa>
struct Engine {
  using Ints = typename Isa::Ints;
  using Floats = typename Isa::Floats;

  // kGroup numbers of one channel group at every pixel, whatever their layout.
  template <int P, bool Whole>
  static REBNN_INLINE void LoadReals(const float* from, const TileOutput& out, int q, Floats (&value)[P]) {
    const int64_t channel = out.channel + q * kGroup;
    const int64_t valid = Whole ? kGroup : out.valid[q];
    if (!Whole && !out.nhwc) return Planes<Isa>::template Load<P>(from + channel * out.plane, out, valid, value);
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      const float* pixel = from + out.first[p] + q * kGroup;
      if (valid == kGroup) {
        value[p] = Isa::Load(pixel);
      } else {
        float part[kGroup] = {};
        std::memcpy(part, pixel, valid * sizeof(float));
        value[p] = Isa::Load(part);
      }
    }
  }

  template <int P, bool Whole>
  static REBNN_INLINE void StoreReals(const TileOutput& out, int q, const Floats (&value)[P]) {
    const int64_t channel = out.channel + q * kGroup;
    const int64_t valid = Whole ? kGroup : out.valid[q];
    if (!Whole && !out.nhwc) return Planes<Isa>::template Store<P>(out.y + channel * out.plane, out, valid, value);
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      float* pixel = out.y + out.first[p] + q * kGroup;
      if (valid == kGroup) {
        Isa::Store(pixel, value[p]);
      } else {
        float part[kGroup];
        Isa::Store(part, value[p]);
        std::memcpy(pixel, part, valid * sizeof(float));
      }
    }
  }

  template <int P, bool Whole>
  static REBNN_INLINE void StoreBits(const TileOutput& out, int q, const Floats (&value)[P]) {
    const int64_t channel = out.channel + q * kGroup;
    const int64_t valid = Whole ? kGroup : out.valid[q];
    uint8_t* bits = out.bits + channel / 8;
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      const uint32_t negative = Isa::NegativeMask(value[p]);
      uint8_t* pixel = bits + out.pixel[p] * out.bit_bytes;
      if (Whole || (valid == kGroup && channel % 8 == 0)) {
        const uint16_t whole = static_cast<uint16_t>(negative);
        std::memcpy(pixel, &whole, sizeof whole);
      } else if (valid > 0) {
        StorePart(pixel, channel % 8, valid, negative & ((uint32_t{1} << valid) - 1));
      }
    }
  }

  // The first of `count` bits goes to bit `first` of a byte that other groups may share.
  static void StorePart(uint8_t* bytes, int64_t first, int64_t count, uint32_t bits) {
    if (first == 0) return WriteBits(bytes, count, bits);
    for (int64_t i = first; i < first + count; ++i) {
      bytes[i / 8] |= static_cast<uint8_t>((bits >> (i - first) & 1) << (i % 8));
    }
  }

  template <int P>
  static REBNN_INLINE void AddChannels(const float* per_channel, int q, Floats (&value)[P]) {
    if (!per_channel) return;
    const Floats term = Isa::Load(per_channel + q * kGroup);
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) value[p] = Isa::Add(value[p], term);
  }

  template <int P>
  static REBNN_INLINE void MulChannels(const float* per_channel, int q, Floats (&value)[P]) {
    if (!per_channel) return;
    const Floats factor = Isa::Load(per_channel + q * kGroup);
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) value[p] = Isa::Mul(value[p], factor);
  }

  // From sums to everything that the caller wants of one group.
  template <int P, bool Whole>
  static REBNN_INLINE void Finish(const TileOutput& out, int q, const Ints (&sum)[P]) {
    if (!Whole && out.sums) {
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        int32_t* to = out.sums + out.first[p] + q * kGroup;
        if (out.valid[q] == kGroup) {
          Isa::Store(to, sum[p]);
        } else {
          int32_t part[kGroup];
          Isa::Store(part, sum[p]);
          std::memcpy(to, part, out.valid[q] * sizeof(int32_t));
        }
      }
    }
    if (!Whole && !out.y && !out.bits) return;
    Floats y[P];
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) y[p] = Isa::ToFloats(sum[p]);
    MulChannels<P>(out.scale, q, y);
    MulChannels<P>(out.mul, q, y);
    AddChannels<P>(out.add, q, y);
    if (out.residual) {
      Floats residual[P];
      LoadReals<P, Whole>(out.residual, out, q, residual);
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) y[p] = Isa::Add(y[p], residual[p]);
    }
    AddChannels<P>(out.pre, q, y);
    if (out.slope) {
      const Floats slope = Isa::Load(out.slope + q * kGroup);
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) y[p] = Isa::Prelu(y[p], slope);
    }
    AddChannels<P>(out.post, q, y);
    if (out.clip) {
      const Floats low = Isa::Set(out.clip[0]), high = Isa::Set(out.clip[1]);
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) y[p] = Isa::Clip(y[p], low, high);
    }
    if (out.y) StoreReals<P, Whole>(out, q, y);
    if (out.bits) {
      AddChannels<P>(out.next_shift, q, y);
      StoreBits<P, Whole>(out, q, y);
    }
  }

  // Large tiles call it, of which it would be three quarters; few of them are not whole.
  template <int P>
  static __attribute__((noinline)) void FinishParts(const TileOutput& out, int q, const Ints (&sum)[P]) {
    Finish<P, false>(out, q, sum);
  }

  // Group by group, so that few registers are in use at a time.
  template <int P, int Q>
  static void Tile(const TileInput& in, const TileOutput& out) {
    Counts<Isa, P, Q> counts;
    counts.Count(in);
    const bool whole = out.whole;  // asked once, since for a compiler any output may overlap it
    const auto finish = [&](int q) __attribute__((always_inline)) {
      const Ints base = Isa::Load(out.base + q * kGroup);
      Ints sum[P];
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) sum[p] = Isa::SubtractTwice(base, counts.Get(p, q));
      if (whole) {
        Finish<P, true>(out, q, sum);
      } else if constexpr (Isa::kMaxPixels > 2) {
        FinishParts<P>(out, q, sum);
      } else {
        Finish<P, false>(out, q, sum);
      }
    };
    if constexpr (Isa::kMaxPixels * Isa::kMaxGroups > 16) {
      // Such counts are in memory anyway, and code for every group would be a third of the library.
      for (int q = 0; q < Q; ++q) finish(q);
    } else {
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) finish(q);
    }
  }

  using TileFunction = void (*)(const TileInput&, const TileOutput&);

  // The tile of `pixels` pixels and Q groups.
  template <int Q, int P = Isa::kMaxPixels>
  static TileFunction TileOf(int64_t pixels) {
    if constexpr (P > 1) {
      if (pixels < P) return TileOf<Q, P - 1>(pixels);
    }
    return Tile<P, Q>;
  }

  // A tile is a few lines of many pixels, which no processor guesses: each would be waited for.
  template <int Q>
  static REBNN_INLINE void Fetch(const TileOutput& out, int64_t first) {
    REBNN_UNROLL
    for (int q = 0; q < Q; ++q) {
      if (out.residual) __builtin_prefetch(out.residual + first + q * kGroup);
      if (out.y) __builtin_prefetch(out.y + first + q * kGroup, 1);
    }
  }

  // One group of channels and `Q` groups of lanes over output rows [first, last) of one image.
  template <int Q>
  static void ConvolveGroups(const Run& run, const uint8_t* map, int64_t g, int64_t lane_group, int64_t first,
                             int64_t last, TileOutput& out) {
    const rebnn_conv& conv = *run.conv;
    const rebnn_conv_desc& d = conv.desc;
    const int64_t groups = conv.blocks * Isa::kBlockLanes / kGroup;
    const int64_t pixel_bytes = d.group * conv.tap_bytes;
    const int64_t kernel_w = d.kernel[1];
    const int64_t tap_weights = conv.tap_bytes * Isa::kBlockLanes;
    const Axis vertical(d, 0, run.io->h);
    const Axis horizontal(d, 1, run.io->w);
    const uint8_t* weights =
        conv.weights + (g * conv.blocks + lane_group * kGroup / Isa::kBlockLanes) * conv.block_bytes;
    const int64_t first_group = g * groups + lane_group;
    const int32_t* border = conv.border_sums ? conv.border_sums + first_group * conv.border_corners * kGroup : nullptr;
    TileInput in;
    in.block_bytes = conv.block_bytes;
    for (int64_t top = first; top < last;) {
      const Taps rows = vertical.Inside(top);
      const int64_t bottom = vertical.SameUntil(top, last, rows);
      for (int64_t left = 0; left < run.out_w;) {
        const Taps cols = horizontal.Inside(left);
        const int64_t right = horizontal.SameUntil(left, run.out_w, cols);
        in.rows = rows.last - rows.first;
        in.cols = cols.last - cols.first;
        in.words = conv.words;
        in.paired = conv.paired;
        in.map_row = d.dilation[0] * run.io->w * pixel_bytes;
        in.map_col = d.dilation[1] * pixel_bytes;
        in.weight_row = kernel_w * tap_weights;
        in.weight_col = tap_weights;
        in.weights = weights + (rows.first * kernel_w + cols.first) * tap_weights;
        if (in.map_col == conv.tap_bytes) {
          in.words *= in.cols;
          in.cols = Smaller(in.cols, 1);
        }
        SetBase<Q>(conv, rows, cols, border, out.base);
        const int64_t width = right - left;
        const int64_t count = (bottom - top) * width;
        const int64_t tiles = (count + Isa::kMaxPixels - 1) / Isa::kMaxPixels;
        const int64_t least = count / tiles;
        int64_t more = count % tiles;  // tiles with one pixel more
        int64_t row = top;
        int64_t col = left;
        for (int64_t tile = 0; tile < tiles; ++tile) {
          const int64_t pixels = least + (more-- > 0);
          for (int64_t p = 0; p < pixels; ++p) {
            out.pixel[p] = row * run.out_w + col;
            out.first[p] = out.pixel[p] * out.channels + out.channel;
            in.pixel[p] = map;
            if (in.cols > 0 && in.rows > 0) {
              in.pixel[p] += ((vertical.Start(row) + rows.first * d.dilation[0]) * run.io->w + horizontal.Start(col) +
                              cols.first * d.dilation[1]) *
                             pixel_bytes;
            }
            if (out.far) Fetch<Q>(out, out.first[p]);
            if (++col == right) {
              col = left;
              ++row;
            }
          }
          TileOf<Q>(pixels)(in, out);
        }
        left = right;
      }
      top = bottom;
    }
  }

  // The sums where no bit differs: one for each product inside the image, and the border's own.
  template <int Q>
  static void SetBase(const rebnn_conv& conv, const Taps& rows, const Taps& cols, const int32_t* border,
                      int32_t* base) {
    const int64_t inside = (rows.last - rows.first) * (cols.last - cols.first);
    for (int i = 0; i < Q * kGroup; ++i) base[i] = static_cast<int32_t>(inside * conv.group_in);
    if (!border || inside == conv.taps) return;
    const auto corner = [&](int64_t row, int64_t col) {
      return border + (row * (conv.desc.kernel[1] + 1) + col) * kGroup;
    };
    const int32_t* all = corner(conv.desc.kernel[0], conv.desc.kernel[1]);
    const int32_t* above = corner(rows.first, cols.last);
    const int32_t* left = corner(rows.last, cols.first);
    const int32_t* both = corner(rows.first, cols.first);
    const int32_t* within = corner(rows.last, cols.last);
    for (int q = 0; q < Q; ++q) {
      const int64_t from = q * conv.border_corners * kGroup;
      for (int64_t i = 0; i < kGroup; ++i) {
        base[q * kGroup + i] += all[from + i] - (within[from + i] - above[from + i] - left[from + i] + both[from + i]);
      }
    }
  }

  // Parameters of `lanes` channels from `channel`; copied where fewer than that exist.
  static const float* Parameters(const float* all, int64_t channel, int64_t exist, int lanes, float* copy) {
    if (!all || exist >= lanes) return all ? all + channel : nullptr;
    std::memcpy(copy, all + channel, exist * sizeof(float));
    std::memset(copy + exist, 0, (lanes - exist) * sizeof(float));
    return copy;
  }

  template <int Q>
  static void ConvolveFrom(const Run& run, const uint8_t* map, int64_t g, int64_t lane_group, int64_t first,
                           int64_t last, int64_t lane_group_end, TileOutput& out) {
    const rebnn_conv& conv = *run.conv;
    constexpr int kLanes = Q * kGroup;
    while (lane_group_end - lane_group >= Q) {
      const int64_t lane = lane_group * kGroup;
      const int64_t exist = Larger(0, Smaller(kLanes, conv.group_out - lane));
      float copies[7][kLanes];
      out.channel = g * conv.group_out + lane;
      for (int q = 0; q < Q; ++q) out.valid[q] = Larger(0, Smaller(kGroup, exist - q * kGroup));
      const rebnn_conv_io& io = *run.io;
      out.whole = out.nhwc && exist >= kLanes && out.channel % 8 == 0 && !out.sums;
      out.scale = Parameters(io.scale, out.channel, exist, kLanes, copies[0]);
      out.mul = Parameters(io.mul, out.channel, exist, kLanes, copies[1]);
      out.add = Parameters(io.add, out.channel, exist, kLanes, copies[2]);
      out.pre = Parameters(io.pre, out.channel, exist, kLanes, copies[3]);
      out.slope = Parameters(io.slope, out.channel, exist, kLanes, copies[4]);
      out.post = Parameters(io.post, out.channel, exist, kLanes, copies[5]);
      out.next_shift = Parameters(io.next_shift, out.channel, exist, kLanes, copies[6]);
      ConvolveGroups<Q>(run, map, g, lane_group, first, last, out);
      lane_group += Q;
    }
    if constexpr (Q * kGroup > Isa::kBlockLanes) {
      ConvolveFrom<Q / 2>(run, map, g, lane_group, first, last, lane_group_end, out);
    }
  }

  static void Convolve(const Run& run, int64_t image, const Share& share) {
    const int64_t first = share.first, last = share.last;
    const rebnn_conv& conv = *run.conv;
    const rebnn_conv_desc& d = conv.desc;
    const rebnn_conv_io& io = *run.io;
    const int64_t pixels = run.out_h * run.out_w;
    const uint8_t* map = run.map + image * io.h * io.w * d.group * conv.tap_bytes;
    TileOutput out;
    out.channels = d.out_channels;
    out.plane = pixels;
    out.nhwc = io.layout == REBNN_NHWC;
    out.clip = io.clip;
    out.far = out.nhwc && io.n * pixels * d.out_channels * static_cast<int64_t>(sizeof(float)) >= kFarBytes;
    out.bit_bytes = (d.out_channels + 7) / 8;
    const int64_t reals = image * pixels * d.out_channels;
    out.residual = io.residual ? io.residual + reals : nullptr;
    out.y = io.y ? io.y + reals : nullptr;
    out.sums = io.sums ? io.sums + reals : nullptr;
    out.bits = io.y_bits ? io.y_bits + image * pixels * out.bit_bytes : nullptr;
    // Groups that do not end with a byte share it.
    if (out.bits && d.group > 1 && conv.group_out % 8 != 0) {
      std::memset(out.bits + first * run.out_w * out.bit_bytes, 0, (last - first) * run.out_w * out.bit_bytes);
    }
    const int64_t lane_groups = conv.blocks * Isa::kBlockLanes / kGroup;
    const int64_t tiles = (lane_groups + Isa::kMaxGroups - 1) / Isa::kMaxGroups;  // of one group
    const int64_t end = d.group * tiles * (share.part + 1) / share.parts;
    for (int64_t tile = d.group * tiles * share.part / share.parts; tile < end;) {
      const int64_t g = tile / tiles;
      const int64_t tiles_end = Smaller(end, (g + 1) * tiles);
      const int64_t from = (tile - g * tiles) * Isa::kMaxGroups, to = (tiles_end - g * tiles) * Isa::kMaxGroups;
      ConvolveFrom<Isa::kMaxGroups>(run, map + g * conv.tap_bytes, g, from, first, last, Smaller(to, lane_groups), out);
      tile = tiles_end;
    }
  }
};

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_KERNELS_H_
