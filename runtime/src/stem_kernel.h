// The stem's convolution and pooling, written once for every instruction set with the compiler's vector types. A file
// per instruction set includes this and instantiates StemEngine. Why all of it is in an unnamed namespace: kernels.h.
//
// Winograd's minimal filtering F(4x4, 4x4) on the four phases of the 7x7 kernel: 49 products of each pair of channels
// give 16 outputs, where the plain sum takes 16 * 49 / 4. The points are 0, 1, -1, 1/2, -1/2, 2 and infinity.
#ifndef REBNN_SRC_STEM_KERNEL_H_
#define REBNN_SRC_STEM_KERNEL_H_

#include <cstring>

#include "stem.h"
#include "vectors.h"

namespace rebnn {
namespace {

// Products of float32: kLanes numbers in a register, kGroups registers of output channels and kTheTiles tiles computed
// together. What takes its place for another type has the same members.
template <int kTheLanes, int kGroups, int kTheTiles>
struct FloatProducts {
  static constexpr int kLanes = kTheLanes, kTiles = kTheTiles, kPairs = 1;
  static constexpr int64_t kBlock = kLanes * kGroups;
  static constexpr bool kScaled = false;
  // Registers of four hold one pixel's phases, and AArch64 multiplies by any one of them.
#if defined(__ARM_PCS_VFP)
  static constexpr bool kByPhase = false;
#else
  static constexpr bool kByPhase = kLanes == kPhases;
#endif
  typedef float Point, Sum, Weight;
  typedef RealVectors<kLanes> Vectors;
  typedef typename Vectors::Floats Floats;

  static REBNN_INLINE void StorePoint(float* to, Floats value) { Vectors::Store(to, value); }
  static REBNN_INLINE Floats LoadSum(const float* from) { return Vectors::Load(from); }
  static void Keep(float value, void* weights, int64_t at) { static_cast<float*>(weights)[at] = value; }

  // Sums over the depth, [49][kTiles][kBlock].
  static void Multiply(const rebnn_stem& stem, const float* points, const float* weights, float* sums) {
    for (int point = 0; point < kPoints; ++point) {
      Floats sum[kTiles][kGroups] = {};
      for (int64_t k = 0; k < stem.depth; k += kPhases) {
        Floats values[kTiles];
        if (kByPhase) {
          REBNN_UNROLL
          for (int tile = 0; tile < kTiles; ++tile) values[tile] = Vectors::Load(points + tile * stem.padded_depth + k);
        }
        REBNN_UNROLL
        for (int phase = 0; phase < kPhases; ++phase) {
          Floats weight[kGroups];
          REBNN_UNROLL
          for (int q = 0; q < kGroups; ++q) weight[q] = Vectors::Load(weights + (k + phase) * kBlock + q * kLanes);
          REBNN_UNROLL
          for (int tile = 0; tile < kTiles; ++tile) {
            const float value = kByPhase ? values[tile][phase] : points[tile * stem.padded_depth + k + phase];
            REBNN_UNROLL
            for (int q = 0; q < kGroups; ++q) sum[tile][q] += weight[q] * value;
          }
        }
      }
      REBNN_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        REBNN_UNROLL
        for (int q = 0; q < kGroups; ++q) Vectors::Store(sums + tile * kBlock + q * kLanes, sum[tile][q]);
      }
      points += kTiles * stem.padded_depth;
      weights += stem.depth * kBlock;
      sums += kTiles * kBlock;
    }
  }
};

template <class Products>
struct StemEngine {
  static constexpr int kLanes = Products::kLanes, kTiles = Products::kTiles;
  static constexpr int64_t kBlock = Products::kBlock;
  typedef typename Products::Point Point;
  typedef typename Products::Sum Sum;
  typedef typename Products::Weight Weight;
  typedef RealVectors<kLanes> Vectors;
  typedef typename Vectors::Floats Floats;

  static REBNN_INLINE Floats Load(const float* from) { return Vectors::Load(from); }
  static REBNN_INLINE void Store(float* to, Floats value) { Vectors::Store(to, value); }
  static REBNN_INLINE Floats Largest(Floats a, Floats b) { return Vectors::Largest(a, b); }

  // From 7 inputs to the 7 points.
  static REBNN_INLINE void ToPoints(const Floats (&d)[kPointSide], Floats (&point)[kPointSide]) {
    point[0] = 2.0f * d[0] - d[1] - 10.0f * d[2] + 5.0f * d[3] + 8.0f * d[4] - 4.0f * d[5];
    point[1] = 9.0f * d[3] + 4.0f * d[4] - 2.0f * d[1] - d[2] - 4.0f * d[5];
    point[2] = 2.0f * d[1] - 3.0f * d[2] - 7.0f * d[3] + 12.0f * d[4] - 4.0f * d[5];
    point[3] = 16.0f * d[1] + 24.0f * d[2] - 32.0f * d[3] - 24.0f * d[4] + 16.0f * d[5];
    point[4] = 16.0f * (d[5] - d[1]) + 40.0f * (d[2] - d[4]);
    point[5] = d[1] - 5.0f * d[3] + 4.0f * d[5];
    point[6] = d[2] - 2.0f * d[1] + 10.0f * d[3] - 5.0f * d[4] - 8.0f * d[5] + 4.0f * d[6];
  }

  // From sums at the 7 points to 4 outputs.
  static REBNN_INLINE void FromPoints(const Floats (&m)[kPointSide], Floats (&out)[kTileSide]) {
    const Floats even_1 = m[1] + m[2], odd_1 = m[1] - m[2];
    const Floats even_2 = m[3] + m[4], odd_2 = m[3] - m[4];
    out[0] = m[0] + even_1 + even_2 + m[5];
    out[1] = odd_1 + 0.5f * odd_2 + 2.0f * m[5];
    out[2] = even_1 + 0.25f * even_2 + 4.0f * m[5];
    out[3] = odd_1 + 0.125f * odd_2 + 8.0f * m[5] + m[6];
  }

  // The seven rows of the phases that a row of tiles needs, [7][columns * 4 + 3][padded depth]; zeros outside.
  static void GatherPhases(const StemRun& run, int64_t image, int64_t tile_row, float* phases) {
    const rebnn_stem& stem = *run.stem;
    const rebnn_stem_io& io = *run.io;
    const int64_t width = run.columns * kTileSide + kPointSide - kTileSide;
    std::memset(phases, 0, kPointSide * width * stem.padded_depth * sizeof(float));
    for (int64_t row = 0; row < kPointSide; ++row) {
      float* to = phases + row * width * stem.padded_depth;
      for (int64_t c = 0; c < stem.in_channels; ++c) {
        const float* plane = io.x + (image * stem.in_channels + c) * io.h * io.w;
        for (int phase = 0; phase < kPhases; phase += 2) {
          // Odd rows are the first phases, because the first tap of the kernel meets one.
          const int64_t y = 2 * (tile_row * kTileSide + row - 2) + (phase == 0 ? 1 : 0);
          if (y < 0 || y >= io.h) continue;
          const float* from = plane + y * io.w;
          float* at = to + 2 * stem.padded_depth + c * kPhases + phase;
          const int64_t pairs = Smaller(io.w / 2, width - 2);
          for (int64_t i = 0; i < pairs; ++i) std::memcpy(at + i * stem.padded_depth, from + 2 * i, 2 * sizeof(float));
          if (io.w % 2 == 1 && pairs < width - 2) at[pairs * stem.padded_depth] = from[2 * pairs];
        }
      }
    }
  }

  // The points of kTiles tiles, [49][kTiles][padded depth].
  static void TransformInput(const rebnn_stem& stem, const float* phases, int64_t width, Point* points) {
    const int64_t depth = stem.padded_depth;
    for (int tile = 0; tile < kTiles; ++tile) {
      for (int64_t k = 0; k < depth; k += kLanes) {
        const float* from = phases + tile * kTileSide * depth + k;
        Floats half[kPointSide][kPointSide];
        REBNN_UNROLL
        for (int x = 0; x < kPointSide; ++x) {
          Floats column[kPointSide], point[kPointSide];
          REBNN_UNROLL
          for (int y = 0; y < kPointSide; ++y) column[y] = Load(from + (y * width + x) * depth);
          ToPoints(column, point);
          REBNN_UNROLL
          for (int y = 0; y < kPointSide; ++y) half[y][x] = point[y];
        }
        REBNN_UNROLL
        for (int y = 0; y < kPointSide; ++y) {
          Floats point[kPointSide];
          ToPoints(half[y], point);
          REBNN_UNROLL
          for (int x = 0; x < kPointSide; ++x) {
            if (Products::kScaled) point[x] *= kPointScale[y] * kPointScale[x];
            Products::StorePoint(points + ((y * kPointSide + x) * kTiles + tile) * depth + k, point[x]);
          }
        }
      }
    }
  }

  // Outputs of the convolution into four rows, [4][row_floats], from the column of the first tile on.
  static void TransformOutput(const Sum* sums, const float* factor, const float* add, int64_t channels,
                              int64_t row_floats, float* rows) {
    for (int tile = 0; tile < kTiles; ++tile) {
      for (int q = 0; q < kBlock / kLanes; ++q) {
        const Sum* from = sums + tile * kBlock + q * kLanes;
        const Floats bias = Load(add + q * kLanes);
        const Floats scale = Products::kScaled ? Load(factor + q * kLanes) : Floats{};
        Floats half[kTileSide][kPointSide];
        REBNN_UNROLL
        for (int x = 0; x < kPointSide; ++x) {
          Floats column[kPointSide], out[kTileSide];
          REBNN_UNROLL
          for (int y = 0; y < kPointSide; ++y) {
            column[y] = Products::LoadSum(from + (y * kPointSide + x) * kTiles * kBlock);
          }
          FromPoints(column, out);
          REBNN_UNROLL
          for (int y = 0; y < kTileSide; ++y) half[y][x] = out[y];
        }
        REBNN_UNROLL
        for (int y = 0; y < kTileSide; ++y) {
          Floats out[kTileSide];
          FromPoints(half[y], out);
          float* to = rows + y * row_floats + tile * kTileSide * channels + q * kLanes;
          REBNN_UNROLL
          for (int x = 0; x < kTileSide; ++x) {
            Store(to + x * channels, Products::kScaled ? out[x] * scale + bias : out[x] + bias);
          }
        }
      }
    }
  }

  // One row of the result from three rows of the convolution.
  static void Pool(const StemRun& run, int64_t image, int64_t out_row, const float* rows, int64_t row_floats,
                   int64_t channels) {
    const int64_t count = run.stem->out_channels;
    const bool nhwc = run.io->layout == REBNN_NHWC;
    const int64_t plane = run.out_h * run.out_w;
    for (int64_t c = 0; c < count; c += kLanes) {
      const int64_t valid = Smaller(kLanes, count - c);
      const float* from = rows + c;
      Floats left = Column(from, row_floats);
      for (int64_t x = 0; x < run.out_w; ++x, from += 2 * channels) {
        const Floats right = Column(from + 2 * channels, row_floats);
        const Floats value = Largest(Largest(left, Column(from + channels, row_floats)), right);
        left = right;
        const int64_t pixel = out_row * run.out_w + x;
        if (nhwc && valid == kLanes) {
          Store(run.io->y + (image * plane + pixel) * count + c, value);
        } else {
          float part[kLanes];
          Store(part, value);
          for (int64_t i = 0; i < valid; ++i) {
            const int64_t channel = c + i;
            run.io->y[nhwc ? (image * plane + pixel) * count + channel : (image * count + channel) * plane + pixel] =
                part[i];
          }
        }
      }
    }
  }

  // The largest of three rows.
  static REBNN_INLINE Floats Column(const float* from, int64_t row_floats) {
    return Largest(Largest(Load(from), Load(from + row_floats)), Load(from + 2 * row_floats));
  }

  static void Rows(const StemRun& run, int64_t image, int64_t first, int64_t last, const float* above,
                   float* memory) {
    const rebnn_stem& stem = *run.stem;
    const StemMemory parts(stem, run.columns);
    float* phases = memory;
    // No type is larger than float.
    Point* points = reinterpret_cast<Point*>(phases + parts.phases);
    Sum* sums = reinterpret_cast<Sum*>(phases + parts.phases + parts.products);
    float* rows = memory + parts.Row();
    const Weight* weights = static_cast<const Weight*>(stem.weights);
    const int64_t channels = stem.blocks * kBlock;
    const int64_t width = run.columns * kTileSide;
    const int64_t row_floats = (width + 2) * channels;
    // The border of the pooling, and the row above the first one.
    FillLow(rows, 5 * row_floats);
    if (above) std::memcpy(rows, above, row_floats * sizeof(float));
    for (int64_t tile_row = first > 0 && !above ? first - 1 : first; tile_row < last; ++tile_row) {
      GatherPhases(run, image, tile_row, phases);
      for (int64_t column = 0; column < run.columns; column += kTiles) {
        TransformInput(stem, phases + column * kTileSide * stem.padded_depth, width + kPointSide - kTileSide, points);
        for (int64_t block = 0; block < stem.blocks; ++block) {
          Products::Multiply(stem, points, weights + block * kPoints * stem.depth * kBlock, sums);
          TransformOutput(sums, stem.factor + block * kBlock, stem.add + block * kBlock, channels, row_floats,
                          rows + row_floats + (column * kTileSide + 1) * channels + block * kBlock);
        }
      }
      for (int64_t y = 0; y < kTileSide; ++y) {
        float* row = rows + (y + 1) * row_floats;
        if (tile_row * kTileSide + y >= run.conv_h) FillLow(row, row_floats);
        FillLow(row + (run.conv_w + 1) * channels, (width + 1 - run.conv_w) * channels);
      }
      if (tile_row >= first) {
        for (int64_t half = 0; half < 2; ++half) {
          const int64_t out_row = 2 * tile_row + half;
          if (out_row < run.out_h) Pool(run, image, out_row, rows + 2 * half * row_floats, row_floats, channels);
        }
      }
      std::memcpy(rows, rows + kTileSide * row_floats, row_floats * sizeof(float));
    }
  }

  static constexpr StemKernels Kernels(const char* type) {
    return {type, kLanes, static_cast<int>(kBlock), kTiles, Products::kPairs, Products::kScaled, sizeof(Weight),
            Products::Keep, Rows};
  }

  static void FillLow(float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) values[i] = -__builtin_inff();
  }
};

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_STEM_KERNEL_H_
