// From real numbers to bits, written once for every instruction set; kernels.h says what one has.
#ifndef REBNN_SRC_PACK_H_
#define REBNN_SRC_PACK_H_

#include <cstring>

#include "taps.h"

namespace rebnn {
namespace {

REBNN_INLINE void WriteBits(uint8_t* bytes, int64_t count, uint32_t bits) {
  bytes[0] = static_cast<uint8_t>(bits);
  if (count > 8) bytes[1] = static_cast<uint8_t>(bits >> 8);
}

template <class Isa>
struct Packer {
  using Ints = typename Isa::Ints;
  using Floats = typename Isa::Floats;

  // One pixel's signs, its channels lying side by side.
  static void PackPixel(const float* x, const float* shift, int64_t channels, uint8_t* map) {
    for (int64_t c = 0; c < channels; c += kGroup) {
      const int64_t count = Smaller(kGroup, channels - c);
      Floats value;
      if (count == kGroup) {
        value = Isa::Load(x + c);
        if (shift) value = Isa::Add(value, Isa::Load(shift + c));
      } else {
        float part[kGroup] = {};
        std::memcpy(part, x + c, count * sizeof(float));
        value = Isa::Load(part);
        if (shift) {
          float part_shift[kGroup] = {};
          std::memcpy(part_shift, shift + c, count * sizeof(float));
          value = Isa::Add(value, Isa::Load(part_shift));
        }
      }
      WriteBits(map + c / 8, count, Isa::NegativeMask(value));
    }
  }

  // kGroup pixels (or `count` if fewer) whose channels are `plane` apart, 32 channels at a time.
  static void PackPlanes(const float* x, int64_t plane, const float* shift, int64_t channels, int64_t count,
                         uint8_t* map, int64_t pixel_bytes) {
    for (int64_t c = 0; c < channels; c += 32) {
      const int64_t bits = Smaller(32, channels - c);
      Ints word = Isa::Zero();
      for (int64_t i = 0; i < bits; ++i) {
        const float* from = x + (c + i) * plane;
        Floats value;
        if (count == kGroup) {
          value = Isa::Load(from);
        } else {
          float part[kGroup] = {};
          std::memcpy(part, from, count * sizeof(float));
          value = Isa::Load(part);
        }
        if (shift) value = Isa::Add(value, Isa::Set(shift[c + i]));
        word = Isa::SetWhereNegative(word, value, static_cast<int32_t>(uint32_t{1} << i));
      }
      int32_t words[kGroup];
      Isa::Store(words, word);
      const int64_t bytes = (bits + 7) / 8;
      for (int64_t p = 0; p < count; ++p) {
        for (int64_t b = 0; b < bytes; ++b) {
          map[p * pixel_bytes + c / 8 + b] = static_cast<uint8_t>(static_cast<uint32_t>(words[p]) >> (8 * b));
        }
      }
    }
  }

  static void Pack(const Run& run, int64_t first, int64_t last) {
    const rebnn_conv& conv = *run.conv;
    const rebnn_conv_io& io = *run.io;
    const int64_t pixel_bytes = conv.desc.group * conv.tap_bytes;
    const int64_t bytes = (conv.group_in + 7) / 8;
    for (int64_t row = first; row < last; ++row) {
      uint8_t* map = run.own_map + row * io.w * pixel_bytes;
      if (bytes != conv.tap_bytes) std::memset(map, 0, io.w * pixel_bytes);
      for (int64_t g = 0; g < conv.desc.group; ++g) {
        const int64_t channel = g * conv.group_in;
        const float* shift = io.shift ? io.shift + channel : nullptr;
        uint8_t* group_map = map + g * conv.tap_bytes;
        if (io.layout == REBNN_NHWC) {
          const float* x = io.x + row * io.w * conv.desc.in_channels + channel;
          for (int64_t p = 0; p < io.w; ++p) {
            PackPixel(x + p * conv.desc.in_channels, shift, conv.group_in, group_map + p * pixel_bytes);
          }
        } else {
          const int64_t plane = io.h * io.w;
          const int64_t image = row / io.h;
          const float* x = io.x + (image * conv.desc.in_channels + channel) * plane + (row - image * io.h) * io.w;
          for (int64_t p = 0; p < io.w; p += kGroup) {
            PackPlanes(x + p, plane, shift, conv.group_in, Smaller(kGroup, io.w - p), group_map + p * pixel_bytes,
                       pixel_bytes);
          }
        }
      }
    }
  }
};

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_PACK_H_
