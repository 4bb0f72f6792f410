// Preparing images against numbers computed in the plainest way, and its wrong arguments. Build it with
// -fsanitize=address,undefined, too: buffers have exactly the size that a call may touch.
//
//   test_image [CASES [SEED]]
#include <algorithm>
#include <cinttypes>

#include "reference.h"

namespace {

struct Case {
  rebnn_image_io io = {};
  std::vector<uint8_t> image;
  std::vector<float> constants;
  std::vector<float> y;
  std::vector<uint8_t> scratch;

  explicit Case(Random& random) {
    const int64_t largest = Between(random, 0, 9) ? 40 : 300;
    io.height = Between(random, 1, largest);
    io.width = Between(random, 1, largest);
    io.row_bytes = 3 * io.width + (Between(random, 0, 1) ? Between(random, 0, 9) : 0);
    // As it is, halved, or anything.
    const int64_t kind = Between(random, 0, 3);
    if (kind == 1) {
      io.height *= 2;
      io.row_bytes += 3 * io.width;
      io.width *= 2;
    }
    for (int i = 0; i < 2; ++i) {
      const int64_t old = i ? io.width : io.height;
      io.resized[i] = kind == 0 ? old : kind == 1 ? old / 2 : Between(random, 1, largest);
      io.crop[2 + i] = Between(random, 1, io.resized[i]);
      io.crop[i] = Between(random, 0, io.resized[i] - io.crop[2 + i]);
      io.size[i] = io.crop[2 + i] + Between(random, 0, 5);
      io.offset[i] = Between(random, 0, io.size[i] - io.crop[2 + i]);
    }
    io.reverse = static_cast<int32_t>(Between(random, 0, 1));
    // No byte after the last pixel.
    image.resize((io.height - 1) * io.row_bytes + 3 * io.width);
    const bool extreme = Between(random, 0, 3) == 0;
    for (uint8_t& byte : image)
      byte = static_cast<uint8_t>(extreme ? 255 * Between(random, 0, 1) : Between(random, 0, 255));
    for (int i = 0; i < 9; ++i) constants.push_back(static_cast<float>(Between(random, 1, 99999)) / 700.0f);
    y.assign(3 * io.size[0] * io.size[1], std::numeric_limits<float>::quiet_NaN());
    io.image = image.data();
    if (Between(random, 0, 2)) {
      io.mean = constants.data();
      io.std = constants.data() + 3;
    }
    io.fill = constants.data() + 6;
    io.y = y.data();
  }

  // A byte of the resized image.
  int Resized(int64_t row, int64_t column, int channel) const {
    const auto at = [&](int64_t r, int64_t c) { return static_cast<int>(image[r * io.row_bytes + 3 * c + channel]); };
    if (io.height == io.resized[0] && io.width == io.resized[1]) return at(row, column);
    if (io.height == 2 * io.resized[0] && io.width == 2 * io.resized[1]) {
      return (at(2 * row, 2 * column) + at(2 * row, 2 * column + 1) + at(2 * row + 1, 2 * column) +
              at(2 * row + 1, 2 * column + 1) + 2) /
             4;
    }
    const auto clipped = [](int64_t i, int64_t size) { return std::min(std::max<int64_t>(i, 0), size - 1); };
    const auto place = [](int64_t i, int64_t old_size, int64_t new_size) {
      const double ratio = 1 / (static_cast<double>(new_size) / static_cast<double>(old_size));
      return static_cast<float>((static_cast<double>(i) + 0.5) * ratio - 0.5);
    };
    const auto weight = [](float fraction) { return static_cast<int64_t>(std::nearbyint(2048.0 * fraction)); };
    const float x = place(column, io.width, io.resized[1]), y_ = place(row, io.height, io.resized[0]);
    const int64_t left = static_cast<int64_t>(std::floor(x)), top = static_cast<int64_t>(std::floor(y_));
    const float fx = left < 0 || left >= io.width - 1 ? 0.0f : x - std::floor(x), fy = y_ - std::floor(y_);
    const int64_t first = clipped(left, io.width), second = clipped(first + 1, io.width);
    const auto line = [&](int64_t r) {
      r = clipped(r, io.height);
      return (at(r, first) * weight(1.0f - fx) + at(r, second) * weight(fx)) / 16;
    };
    return static_cast<int>((line(top) * weight(1.0f - fy) / 65536 + line(top + 1) * weight(fy) / 65536 + 2) / 4);
  }

  float Expected(int c, int64_t row, int64_t column) const {
    row -= io.offset[0];
    column -= io.offset[1];
    if (row < 0 || column < 0 || row >= io.crop[2] || column >= io.crop[3]) return io.fill[c];
    const auto value = static_cast<float>(Resized(io.crop[0] + row, io.crop[1] + column, io.reverse ? 2 - c : c));
    return io.mean ? (value - io.mean[c]) / io.std[c] : value;
  }

  void* Scratch(size_t* bytes) {
    CHECK(rebnn_image_scratch_size(&io, bytes) == REBNN_OK, "%s", rebnn_last_error());
    scratch.assign(*bytes + 64, 0xa5);
    return scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
  }
};

void Compare(Random& random) {
  Case one(random);
  size_t bytes = 0;
  void* scratch = one.Scratch(&bytes);
  // In parts, the last one first.
  const int64_t split = Between(random, 0, one.io.size[0]);
  for (const int64_t first : {split, int64_t{0}}) {
    const int64_t count = first ? one.io.size[0] - split : split ? split : one.io.size[0];
    CHECK(rebnn_image_rows(&one.io, first, count, scratch, bytes) == REBNN_OK, "%s", rebnn_last_error());
  }
  const float* found = one.y.data();
  for (int c = 0; c < 3; ++c) {
    for (int64_t row = 0; row < one.io.size[0]; ++row) {
      for (int64_t column = 0; column < one.io.size[1]; ++column, ++found) {
        const float expected = one.Expected(c, row, column);
        CHECK(*found == expected,
              "%" PRId64 "x%" PRId64 " to %" PRId64 "x%" PRId64 ": %g in place of %g at %d, %" PRId64 ", %" PRId64,
              one.io.width, one.io.height, one.io.resized[1], one.io.resized[0], *found, expected, c, row, column);
      }
    }
  }
}

void Arguments(Random& random) {
  Case one(random);
  size_t bytes = 0;
  void* scratch = one.Scratch(&bytes);
  const auto refused = [&](rebnn_image_io io, const char* word) {
    CHECK(rebnn_image_rows(&io, 0, 1, scratch, bytes) == REBNN_INVALID_ARGUMENT, "%s is allowed", word);
    CHECK(std::strstr(rebnn_last_error(), word), "%s does not say %s", rebnn_last_error(), word);
  };
  const auto changed = [&](auto change) {
    rebnn_image_io io = one.io;
    change(io);
    return io;
  };
  for (int64_t side : {int64_t{0}, int64_t{-1}, (int64_t{1} << 28) + 1, INT64_MAX, INT64_MIN}) {
    refused(changed([&](rebnn_image_io& io) { io.width = side; }), "side");
    refused(changed([&](rebnn_image_io& io) { io.resized[0] = side; }), "side");
    refused(changed([&](rebnn_image_io& io) { io.crop[3] = side; }), "side");
    refused(changed([&](rebnn_image_io& io) { io.size[1] = side; }), "side");
  }
  for (int64_t place : {int64_t{-1}, int64_t{1} << 40, INT64_MAX, INT64_MIN}) {
    refused(changed([&](rebnn_image_io& io) { io.crop[1] = place; }), "crop");
    refused(changed([&](rebnn_image_io& io) { io.offset[0] = place; }), "crop");
    CHECK(rebnn_image_rows(&one.io, place, 1, scratch, bytes) == REBNN_INVALID_ARGUMENT, "a first row beyond");
    CHECK(rebnn_image_rows(&one.io, 0, place, scratch, bytes) == REBNN_INVALID_ARGUMENT, "too many rows");
  }
  refused(changed([&](rebnn_image_io& io) { io.row_bytes = 3 * io.width - 1; }), "row_bytes");
  refused(changed([&](rebnn_image_io& io) { io.row_bytes = INT64_MAX, io.height = 1 << 20; }), "row_bytes");
  refused(changed([&](rebnn_image_io& io) { io.reverse = 2; }), "reverse");
  refused(changed([&](rebnn_image_io& io) { io.image = nullptr; }), "image");
  refused(changed([&](rebnn_image_io& io) { io.fill = nullptr; }), "fill");
  refused(changed([&](rebnn_image_io& io) { io.y = nullptr; }), "y is NULL");
  refused(changed([&](rebnn_image_io& io) { io.mean = io.fill, io.std = nullptr; }), "mean");
  refused(changed([&](rebnn_image_io& io) { io.mean = OffByOne(io.fill), io.std = io.fill; }), "mean is not aligned");
  refused(changed([&](rebnn_image_io& io) { io.fill = OffByOne(io.fill); }), "fill is not aligned");
  refused(changed([&](rebnn_image_io& io) { io.y = OffByOne(io.y); }), "y is not aligned");
  if (sizeof(void*) == 4) {
    // One row of so many pixels may fit into memory; what making it takes does not.
    const auto wide = changed([](rebnn_image_io& io) {
      io.size[0] = io.crop[2] = 1;
      io.offset[0] = io.offset[1] = io.crop[0] = io.crop[1] = 0;
      io.size[1] = io.crop[3] = io.resized[1] = int64_t{1} << 27;
    });
    refused(wide, "scratch memory");
  }
  CHECK(rebnn_image_rows(nullptr, 0, 1, scratch, bytes) == REBNN_INVALID_ARGUMENT, "no io");
  CHECK(rebnn_image_rows(&one.io, 0, 1, nullptr, bytes) == REBNN_INVALID_ARGUMENT, "no scratch");
  CHECK(rebnn_image_rows(&one.io, 0, 1, scratch, bytes - 1) == REBNN_INVALID_ARGUMENT, "too little scratch");
  CHECK(rebnn_image_rows(&one.io, 0, 1, static_cast<char*>(scratch) + 1, bytes) == REBNN_INVALID_ARGUMENT, "unaligned");
  CHECK(rebnn_image_scratch_size(&one.io, nullptr) == REBNN_INVALID_ARGUMENT, "no place for the size");
}

}  // namespace

int main(int count, char** arguments) {
  const char* isa = RequireIsa();
  const int64_t cases = count > 1 ? std::atoll(arguments[1]) : 20000;
  Random random(count > 2 ? std::atoll(arguments[2]) : 1);
  Arguments(random);
  for (int64_t i = 0; i < cases; ++i) Compare(random);
  std::printf("%s: %" PRId64 " images, every number is equal\n", isa, cases);
}
