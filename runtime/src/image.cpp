// Preparing an image: checks, and which pixels a row of the result comes from. The arithmetic is that of
// rebnn_mm/deploy/image.py, whose comments say where it is from.
#include "image.h"

#include <cstring>

#include "error.h"
#include "geometry.h"
#include "isa.h"
#include "memory.h"

namespace rebnn {
namespace {

constexpr int64_t kLargestSide = int64_t{1} << 28;  // three times that is an int32
constexpr int64_t kTableBytes = 3 * 256 * sizeof(float);

// A pixel of the result lies this far after a pixel of the image.
struct Place {
  int64_t before;
  float fraction;
};

Place PlaceOf(int64_t index, int64_t old_size, int64_t new_size) {
  const double ratio = 1 / (static_cast<double>(new_size) / static_cast<double>(old_size));
  const float place = static_cast<float>((static_cast<double>(index) + 0.5) * ratio - 0.5);
  int64_t before = static_cast<int64_t>(place);
  if (place < static_cast<float>(before)) --before;
  return {before, place - static_cast<float>(before)};
}

// To the nearest multiple of 1 / 2048, of two the even one.
int32_t Weight(float fraction) {
  const float value = fraction * 2048.0f;
  int32_t weight = static_cast<int32_t>(value);
  const float rest = value - static_cast<float>(weight);
  if (rest > 0.5f || (rest == 0.5f && (weight & 1))) ++weight;
  return weight;
}

int64_t Clipped(int64_t index, int64_t size) { return index < 0 ? 0 : index < size ? index : size - 1; }

int64_t Aligned(int64_t bytes) { return CeilDiv(bytes, kAlignment) * static_cast<int64_t>(kAlignment); }

struct Memory {
  int64_t column_bytes, line_bytes;
  explicit Memory(int64_t columns)
      : column_bytes(Aligned(columns * static_cast<int64_t>(sizeof(int32_t)))),
        line_bytes(Aligned(columns * 4 * static_cast<int64_t>(sizeof(int16_t)))) {}
  int64_t Bytes() const { return 2 * column_bytes + 3 * line_bytes + kTableBytes; }
};

enum class Kind { kSame, kHalf, kAny };

// One call: the rows are made one after another, and a line that two rows need is kept.
class Rows {
 public:
  Rows(const rebnn_image_io& io, const ImageKernels& kernels, uint8_t* scratch) : io_(io), kernels_(kernels) {
    const Memory memory(io.crop[3]);
    left_ = reinterpret_cast<int32_t*>(scratch);
    weights_ = reinterpret_cast<int32_t*>(scratch += memory.column_bytes);
    tables_ = reinterpret_cast<float*>(scratch += memory.column_bytes);
    scratch += kTableBytes;
    for (int i = 0; i < 3; ++i) lines_[i] = reinterpret_cast<int16_t*>(scratch + i * memory.line_bytes);
    for (int c = 0; c < 3; ++c) {
      for (int value = 0; value < 256; ++value) {
        const float real = static_cast<float>(value);
        tables_[256 * c + value] = io.mean ? (real - io.mean[c]) / io.std[c] : real;
      }
    }
    if (io.height == io.resized[0] && io.width == io.resized[1]) {
      kind_ = Kind::kSame;
    } else if (io.height == 2 * io.resized[0] && io.width == 2 * io.resized[1]) {
      kind_ = Kind::kHalf;
    } else {
      FindColumns();
    }
  }

  void Make(int64_t row) {
    const int64_t inside = row - io_.offset[0];
    const bool filled = inside < 0 || inside >= io_.crop[2];
    float* planes[3];
    for (int c = 0; c < 3; ++c) {
      float* y = planes[c] = io_.y + (c * io_.size[0] + row) * io_.size[1];
      const int64_t kept = filled ? 0 : io_.crop[3], left = io_.offset[1];
      for (int64_t i = 0; i < left; ++i) y[i] = io_.fill[c];
      for (int64_t i = left + kept; i < io_.size[1]; ++i) y[i] = io_.fill[c];
    }
    if (filled) return;
    // Channels of the line, in its order.
    const int first = io_.reverse ? 2 : 0, last = 2 - first;
    const float* const tables[3] = {tables_ + 256 * first, tables_ + 256, tables_ + 256 * last};
    float* const y[3] = {planes[first] + io_.offset[1], planes[1] + io_.offset[1], planes[last] + io_.offset[1]};
    kernels_.look_up(Line(io_.crop[0] + inside), io_.crop[3], tables, y);
  }

 private:
  void FindColumns() {
    for (int64_t i = 0; i < io_.crop[3]; ++i) {
      const Place place = PlaceOf(io_.crop[1] + i, io_.width, io_.resized[1]);
      const bool outside = place.before < 0 || place.before >= io_.width - 1;
      const float fraction = outside ? 0.0f : place.fraction;
      left_[i] = static_cast<int32_t>(3 * Clipped(place.before, io_.width));
      weights_[i] = Weight(1.0f - fraction) | Weight(fraction) << 16;
    }
  }

  const uint8_t* Source(int64_t row) const { return io_.image + row * io_.row_bytes; }

  // A row of the resized image, from the first column of the crop on.
  const int16_t* Line(int64_t row) {
    int16_t* line = lines_[2];
    if (kind_ == Kind::kSame) {
      kernels_.widen(Source(row) + 3 * io_.crop[1], io_.crop[3], line);
    } else if (kind_ == Kind::kHalf) {
      kernels_.halve(Source(2 * row) + 6 * io_.crop[1], Source(2 * row + 1) + 6 * io_.crop[1], io_.crop[3], line);
    } else {
      const Place place = PlaceOf(row, io_.height, io_.resized[0]);
      const int64_t above = Clipped(place.before, io_.height), below = Clipped(place.before + 1, io_.height);
      const int first = Stretched(above, -1), second = Stretched(below, first);
      kernels_.blend(lines_[first], lines_[second], Weight(1.0f - place.fraction), Weight(place.fraction), io_.crop[3],
                     line);
    }
    return line;
  }

  // Which of the two lines holds a row of the image; it is not made in the line that is to be kept.
  int Stretched(int64_t row, int kept) {
    for (int i = 0; i < 2; ++i) {
      if (held_[i] == row) return i;
    }
    const int free = kept >= 0 ? 1 - kept : held_[0] <= held_[1] ? 0 : 1;
    kernels_.stretch(Source(row), {left_, weights_, io_.crop[3], 3 * io_.width}, lines_[free]);
    held_[free] = row;
    return free;
  }

  const rebnn_image_io& io_;
  const ImageKernels& kernels_;
  Kind kind_ = Kind::kAny;
  int32_t* left_;
  int32_t* weights_;
  int16_t* lines_[3];
  float* tables_;
  int64_t held_[2] = {-1, -1};
};

rebnn_status Check(const char* name, const rebnn_image_io* io) {
  const auto invalid = REBNN_INVALID_ARGUMENT;
  if (!io) return Fail(invalid, "%s: io is NULL.", name);
  const int64_t sides[] = {io->height,  io->width,   io->resized[0], io->resized[1],
                           io->crop[2], io->crop[3], io->size[0],    io->size[1]};
  for (int64_t side : sides) {
    if (side < 1 || side > kLargestSide) {
      return Fail(invalid, "%s: a side is %lld; it must be from 1 to %lld.", name, static_cast<long long>(side),
                  static_cast<long long>(kLargestSide));
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (io->crop[i] < 0 || io->crop[i] > io->resized[i] - io->crop[2 + i]) {
      return Fail(invalid, "%s: a crop of %lld from %lld on does not lie in the %lld of the resized image.", name,
                  static_cast<long long>(io->crop[2 + i]), static_cast<long long>(io->crop[i]),
                  static_cast<long long>(io->resized[i]));
    }
    if (io->offset[i] < 0 || io->offset[i] > io->size[i] - io->crop[2 + i]) {
      return Fail(invalid, "%s: a crop of %lld from %lld on does not lie in the %lld of y.", name,
                  static_cast<long long>(io->crop[2 + i]), static_cast<long long>(io->offset[i]),
                  static_cast<long long>(io->size[i]));
    }
  }
  if (io->row_bytes < 3 * io->width || Product({io->height, io->row_bytes}) < 0) {
    return Fail(invalid, "%s: row_bytes is %lld; a row of %lld pixels has three times as many, and memory an end.",
                name, static_cast<long long>(io->row_bytes), static_cast<long long>(io->width));
  }
  if (io->reverse != 0 && io->reverse != 1) {
    return Fail(invalid, "%s: reverse is %d; it must be 0 or 1.", name, static_cast<int>(io->reverse));
  }
  if (Product({Memory(io->crop[3]).Bytes()}) < 0) {
    return Fail(invalid, "%s: a crop of %lld columns needs more scratch memory than there can be.", name,
                static_cast<long long>(io->crop[3]));
  }
  const int64_t channels = 3, real = sizeof(float);
  if (Product({channels, io->size[0], io->size[1], real}) < 0) {
    return Fail(invalid, "%s: a result of %lld x %lld is larger than memory can be.", name,
                static_cast<long long>(io->size[0]), static_cast<long long>(io->size[1]));
  }
  return REBNN_OK;
}

}  // namespace
}  // namespace rebnn

rebnn_status rebnn_image_scratch_size(const rebnn_image_io* io, size_t* bytes) {
  const auto name = "rebnn_image_scratch_size";
  const rebnn_status status = rebnn::Check(name, io);
  if (status != REBNN_OK) return status;
  if (!bytes) return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: bytes is NULL.", name);
  *bytes = static_cast<size_t>(rebnn::Memory(io->crop[3]).Bytes());
  return REBNN_OK;
}

rebnn_status rebnn_image_rows(const rebnn_image_io* io, int64_t first, int64_t count, void* scratch,
                              size_t scratch_bytes) {
  using namespace rebnn;
  const auto name = "rebnn_image_rows";
  const auto invalid = REBNN_INVALID_ARGUMENT;
  const rebnn_status status = Check(name, io);
  if (status != REBNN_OK) return status;
  if (first < 0 || count < 0 || count > io->size[0] || first > io->size[0] - count) {
    return Fail(invalid, "%s: %lld rows from %lld on, of %lld.", name, static_cast<long long>(count),
                static_cast<long long>(first), static_cast<long long>(io->size[0]));
  }
  if (!io->image || !io->fill || !io->y) {
    return Fail(invalid, "%s: %s is NULL.", name, !io->image ? "image" : !io->fill ? "fill" : "y");
  }
  if (!io->mean != !io->std) return Fail(invalid, "%s: mean and std are both there or both NULL.", name);
  const rebnn_status unaligned =
      CheckAligned(name, {{"mean", io->mean}, {"std", io->std}, {"fill", io->fill}, {"y", io->y}});
  if (unaligned != REBNN_OK) return unaligned;
  const auto needed = static_cast<size_t>(Memory(io->crop[3]).Bytes());
  if (rebnn_status wrong = CheckScratch(name, scratch, scratch_bytes, needed)) return wrong;
  const Kernels* kernels = ChosenKernels();
  if (!kernels) return invalid;
  Rows rows(*io, kernels->image, static_cast<uint8_t*>(scratch));
  for (int64_t row = first; row < first + count; ++row) rows.Make(row);
  return REBNN_OK;
}
