// Wrong descriptions, sizes and pointers: each gives a status and a sentence that names what is wrong, and nothing is
// touched.
#include <functional>

#include "reference.h"

namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

rebnn_conv_desc Good() { return Description(64, 32, 1, 3, 1, 1, 1, 0); }

void Says(rebnn_status status, const char* words) {
  CHECK(status != REBNN_OK, "accepted, where '%s' is wrong", words);
  CHECK(std::strstr(rebnn_last_error(), words), "the sentence is '%s', without '%s'", rebnn_last_error(), words);
  const size_t length = std::strlen(rebnn_last_error());
  CHECK(length < 500 && rebnn_last_error()[length - 1] == '.', "not a whole sentence: '%s'", rebnn_last_error());
}

void Descriptions() {
  const struct {
    const char* words;
    std::function<void(rebnn_conv_desc&)> change;
  } wrong[] = {
      {"in_channels is 0", [](auto& d) { d.in_channels = 0; }},
      {"in_channels is -64", [](auto& d) { d.in_channels = -64; }},
      {"in_channels is 9223372036854775807", [](auto& d) { d.in_channels = kHuge; }},
      {"out_channels is 0", [](auto& d) { d.out_channels = 0; }},
      {"group is 0", [](auto& d) { d.group = 0; }},
      {"group is 3, which divides 64 input and 32 output channels unevenly", [](auto& d) { d.group = 3; }},
      {"group is 64", [](auto& d) { d.group = 64; }},
      {"kernel's height is 0", [](auto& d) { d.kernel[0] = 0; }},
      {"kernel's width is -1", [](auto& d) { d.kernel[1] = -1; }},
      {"64 channels x 2147483647 x 3 taps", [](auto& d) { d.kernel[0] = 2147483647; }},
      {"64 channels x 512 x 513 taps", [](auto& d) { d.kernel[0] = 512, d.kernel[1] = 513; }},
      {"vertical stride is 0", [](auto& d) { d.stride[0] = 0; }},
      {"horizontal stride is -2", [](auto& d) { d.stride[1] = -2; }},
      {"vertical dilation is 0", [](auto& d) { d.dilation[0] = 0; }},
      {"horizontal dilation is 2147483648", [](auto& d) { d.dilation[1] = int64_t{1} << 31; }},
      {"pad at the top is -1", [](auto& d) { d.pad[0] = -1; }},
      {"pad at the left is -1", [](auto& d) { d.pad[1] = -1; }},
      {"pad at the bottom is -1", [](auto& d) { d.pad[2] = -1; }},
      {"pad at the right is 9223372036854775807", [](auto& d) { d.pad[3] = kHuge; }},
      {"pad_value is 2", [](auto& d) { d.pad_value = 2; }},
      {"pad_value is -2", [](auto& d) { d.pad_value = -2; }},
      {"the weights have 2304 bytes, but 33 output channels x 3 x 3 taps x 8 bytes",
       [](auto& d) { d.out_channels = 33; }},
      {"the weights have 2304 bytes, but 2147483647 output", [](auto& d) { d.out_channels = 2147483647; }},
      {"x 3 x 3 taps x 9 bytes", [](auto& d) { d.in_channels = 65; }},
  };
  const std::vector<uint8_t> weights(32 * 9 * 8);
  for (const auto& one : wrong) {
    rebnn_conv_desc desc = Good();
    one.change(desc);
    rebnn_conv* conv = reinterpret_cast<rebnn_conv*>(8);
    Says(rebnn_conv_create(&desc, weights.data(), weights.size(), &conv), one.words);
    CHECK(conv == nullptr, "conv is set in spite of the error");
  }
  const rebnn_conv_desc desc = Good();
  rebnn_conv* conv = nullptr;
  Says(rebnn_conv_create(nullptr, weights.data(), weights.size(), &conv), "desc is NULL");
  Says(rebnn_conv_create(&desc, nullptr, weights.size(), &conv), "weights is NULL");
  Says(rebnn_conv_create(&desc, weights.data(), weights.size(), nullptr), "conv is NULL");
  Says(rebnn_conv_create(&desc, weights.data(), weights.size() - 1, &conv), "the weights have 2303 bytes");
  Says(rebnn_conv_create(&desc, weights.data(), 0, &conv), "the weights have 0 bytes");

  const rebnn_conv_desc odd = Description(12, 3, 1, 1, 1, 1, 0, 0);
  const uint8_t filled[] = {0xff, 0x0f, 0xff, 0x0f, 0xff, 0x1f};
  Says(rebnn_conv_create(&odd, filled, sizeof filled, &conv),
       "output channel 2 have bits set beyond input channel 11");
  rebnn_conv_destroy(nullptr);
}

void Sizes(const rebnn_conv* conv) {
  int64_t h = 0, w = 0;
  size_t bytes = 0;
  Says(rebnn_conv_output_size(nullptr, 8, 8, &h, &w), "argument is NULL");
  Says(rebnn_conv_output_size(conv, 8, 8, nullptr, &w), "argument is NULL");
  Says(rebnn_conv_output_size(conv, 0, 8, &h, &w), "height is 0");
  Says(rebnn_conv_output_size(conv, 8, -3, &h, &w), "width is -3");
  Says(rebnn_conv_output_size(conv, kHuge, 8, &h, &w), "height is 9223372036854775807");
  Says(rebnn_conv_scratch_size(conv, -1, 8, 8, 1, &bytes), "n is -1");
  Says(rebnn_conv_scratch_size(conv, 1, 8, 8, 1, nullptr), "argument is NULL");
  Says(rebnn_conv_scratch_size(conv, 2147483647, 2147483647, 2147483647, 1, &bytes), "more than memory can hold");

  rebnn_conv_desc desc = Description(8, 1, 1, 5, 1, 6, 0, 0);
  const std::vector<uint8_t> weights(25);
  rebnn_conv* wide = nullptr;
  CHECK(rebnn_conv_create(&desc, weights.data(), weights.size(), &wide) == REBNN_OK, "%s", rebnn_last_error());
  Says(rebnn_conv_output_size(wide, 24, 25, &h, &w), "spans 25 pixels of height, but the input has 24");
  Says(rebnn_conv_output_size(wide, 25, 24, &h, &w), "spans 25 pixels of width, but the input has 24");
  CHECK(rebnn_conv_output_size(wide, 25, 26, &h, &w) == REBNN_OK && h == 1 && w == 2, "25 x 26 gives 1 x 2");
  rebnn_conv_destroy(wide);
}

void Runs(const rebnn_conv* conv) {
  const std::vector<float> x(64 * 8 * 8);
  const std::vector<uint8_t> x_bits(8 * 8 * 8);
  const std::vector<float> parameters(64);
  const float clip[] = {-1, 0, 1}, nans[] = {NAN, NAN};
  std::vector<float> y(32 * 8 * 8 + 1, 3.0f);
  std::vector<int32_t> sums(32 * 8 * 8);
  std::vector<uint8_t> y_bits(4 * 8 * 8);
  const Scratch scratch(64 * 8 * 8);
  rebnn_conv_io good = {};
  good.n = 1;
  good.h = good.w = 8;
  good.x = x.data();
  good.y = y.data();
  const struct {
    const char* words;
    std::function<void(rebnn_conv_io&)> change;
  } wrong[] = {
      {"n is -1", [](auto& io) { io.n = -1; }},
      {"height is 0", [](auto& io) { io.h = 0; }},
      {"width is -1", [](auto& io) { io.w = -1; }},
      {"more than memory can hold", [](auto& io) { io.n = io.h = io.w = 2147483647; }},
      {"exactly one of x and x_bits", [](auto& io) { io.x = nullptr; }},
      {"exactly one of x and x_bits", [&](auto& io) { io.x_bits = x_bits.data(); }},
      {"shift is given without x", [&](auto& io) { io.x = nullptr, io.x_bits = x_bits.data(), io.shift = x.data(); }},
      {"layout is 2", [](auto& io) { io.layout = 2; }},
      {"none of sums, y and y_bits", [](auto& io) { io.y = nullptr; }},
      {"next_shift is given without y_bits", [&](auto& io) { io.next_shift = x.data(); }},
      {"neither y nor y_bits", [&](auto& io) { io.y = nullptr, io.sums = sums.data(), io.slope = x.data(); }},
      {"neither y nor y_bits", [&](auto& io) { io.y = nullptr, io.sums = sums.data(), io.clip = clip; }},
      {"clip is 0 and 1; the first must be negative", [&](auto& io) { io.clip = clip + 1; }},
      {"clip is nan and nan", [&](auto& io) { io.clip = nans; }},
      {"x is not aligned", [&](auto& io) { io.x = OffByOne(x.data()); }},
      {"y is not aligned", [&](auto& io) { io.y = OffByOne(y.data()); }},
      {"residual is not aligned", [&](auto& io) { io.residual = OffByOne(x.data()); }},
      {"sums is not aligned", [&](auto& io) { io.sums = OffByOne(sums.data()); }},
  };
  for (const auto& one : wrong) {
    rebnn_conv_io io = good;
    one.change(io);
    Says(rebnn_conv_run(conv, &io, scratch.get(), scratch.bytes(), nullptr), one.words);
  }
  const rebnn_parallel nothing = {};
  char* memory = static_cast<char*>(scratch.get());
  Says(rebnn_conv_run(nullptr, &good, memory, scratch.bytes(), nullptr), "conv is NULL");
  Says(rebnn_conv_run(conv, nullptr, memory, scratch.bytes(), nullptr), "io is NULL");
  Says(rebnn_conv_run(conv, &good, memory, scratch.bytes(), &nothing), "parallel has no run function");
  const size_t needed = 8 * 8 * 8;
  Says(rebnn_conv_run(conv, &good, memory, needed - 1, nullptr), "scratch has 511 bytes, but this run needs 512");
  Says(rebnn_conv_run(conv, &good, nullptr, needed, nullptr), "scratch is NULL");
  Says(rebnn_conv_run(conv, &good, memory + 32, needed, nullptr), "scratch is not aligned");
  for (float value : y) CHECK(value == 3.0f, "an output was written in spite of the error");

  // No images are no work, and whole words of packed channels need no scratch.
  rebnn_conv_io none = good;
  none.n = 0;
  none.x = nullptr;
  CHECK(rebnn_conv_run(conv, &none, nullptr, 0, nullptr) == REBNN_OK, "%s", rebnn_last_error());
  rebnn_conv_io direct = good;
  direct.x = nullptr;
  direct.x_bits = x_bits.data();
  direct.y_bits = y_bits.data();
  CHECK(rebnn_conv_run(conv, &direct, nullptr, 0, nullptr) == REBNN_OK, "%s", rebnn_last_error());
  // Weights and input are +1: inside, all 64 channels of 9 taps are counted; in a corner those of 4.
  CHECK(y[9] == 576.0f && y[0] == 256.0f, "the sums are %g and %g, not 576 and 256", y[9], y[0]);
  CHECK(y[32 * 8 * 8] == 3.0f, "a value after the output was written");
}

void Regions() {
  constexpr int64_t kSide = 8, kChannels = 3, kRegions = 2, kBins = 2;
  const std::vector<float> x(kSide * kSide * kChannels, 1.0f);
  const std::vector<int64_t> images(kRegions), behind(kRegions, 1), before(kRegions, -1);
  const std::vector<float> rois = {0, 0, 4, 4, 1, 1, 7, 7};
  const std::vector<float> wide = {0, 0, 4, 4, 0, 0, 1 << 21, 4}, nowhere = {0, NAN, 4, 4, 1, 1, 7, 7},
                           left = {0, 0, -3e6f, 4, 1, 1, 7, 7};
  std::vector<float> y(kRegions * kBins * kBins * kChannels, 3.0f);
  const rebnn_roi_align_io good = {1, kSide, kSide, kChannels, kRegions, {kBins, kBins}, 0, 1.0f, 1,
                                   x.data(), rois.data(), images.data(), y.data()};
  const struct {
    const char* words;
    std::function<void(rebnn_roi_align_io&)> change;
  } wrong_sizes[] = {
      {"n is -1", [](auto& io) { io.n = -1; }},
      {"the map's height is 0", [](auto& io) { io.h = 0; }},
      {"the map's width is 9223372036854775807", [](auto& io) { io.w = kHuge; }},
      {"channels is -3", [](auto& io) { io.channels = -3; }},
      {"the number of regions is -1", [](auto& io) { io.regions = -1; }},
      {"the output's height is 0", [](auto& io) { io.bins[0] = 0; }},
      {"the output's width is 65537", [](auto& io) { io.bins[1] = 65537; }},
      {"sampling_ratio is -1", [](auto& io) { io.sampling_ratio = -1; }},
      {"larger than memory can be", [](auto& io) { io.n = io.h = io.w = 2147483647; }},
      {"spatial_scale is 0", [](auto& io) { io.spatial_scale = 0.0f; }},
      {"spatial_scale is nan", [](auto& io) { io.spatial_scale = NAN; }},
  }, wrong_regions[] = {
      {"region 0 is of image 1, but there are 1", [&](auto& io) { io.batch_indices = behind.data(); }},
      {"region 0 is of image -1", [&](auto& io) { io.batch_indices = before.data(); }},
      {"region 1 reaches from 0 to 2.09715e+06", [&](auto& io) { io.rois = wide.data(); }},
      {"region 0 reaches from nan to 4", [&](auto& io) { io.rois = nowhere.data(); }},
      {"region 0 reaches from 0 to -3e+06", [&](auto& io) { io.rois = left.data(), io.half_pixel = 0; }},
      {"rois is NULL", [](auto& io) { io.rois = nullptr; }},
      {"batch_indices is NULL", [](auto& io) { io.batch_indices = nullptr; }},
      {"x is NULL", [](auto& io) { io.x = nullptr; }},
      {"y is NULL", [](auto& io) { io.y = nullptr; }},
      {"rois is not aligned", [&](auto& io) { io.rois = OffByOne(rois.data()); }},
      {"batch_indices is not aligned", [&](auto& io) { io.batch_indices = OffByOne(images.data()); }},
      {"x is not aligned", [&](auto& io) { io.x = OffByOne(x.data()); }},
      {"y is not aligned", [&](auto& io) { io.y = OffByOne(y.data()); }},
  };
  size_t needed = 0;
  CHECK(rebnn_roi_align_scratch_size(&good, 1, &needed) == REBNN_OK, "%s", rebnn_last_error());
  const Scratch scratch(needed);
  char* memory = static_cast<char*>(scratch.get());
  for (const auto& one : wrong_sizes) {
    rebnn_roi_align_io io = good;
    one.change(io);
    size_t bytes = 7;
    Says(rebnn_roi_align_scratch_size(&io, 1, &bytes), one.words);
    CHECK(bytes == 7, "bytes is set in spite of the error");
    Says(rebnn_roi_align_run(&io, memory, needed, nullptr), one.words);
  }
  for (const auto& one : wrong_regions) {
    rebnn_roi_align_io io = good;
    one.change(io);
    Says(rebnn_roi_align_run(&io, memory, needed, nullptr), one.words);
  }
  const rebnn_parallel nothing = {};
  Says(rebnn_roi_align_scratch_size(nullptr, 1, &needed), "an argument is NULL");
  Says(rebnn_roi_align_scratch_size(&good, 1, nullptr), "an argument is NULL");
  Says(rebnn_roi_align_run(nullptr, memory, needed, nullptr), "io is NULL");
  Says(rebnn_roi_align_run(&good, memory, needed, &nothing), "parallel has no run function");
  Says(rebnn_roi_align_run(&good, memory, needed - 1, nullptr), "but this run needs");
  Says(rebnn_roi_align_run(&good, nullptr, needed, nullptr), "scratch is NULL");
  Says(rebnn_roi_align_run(&good, memory + 32, needed, nullptr), "scratch is not aligned");
  for (float value : y) CHECK(value == 3.0f, "an output was written in spite of the error");

  rebnn_roi_align_io none = good;
  none.regions = 0;
  none.rois = nullptr;
  CHECK(rebnn_roi_align_run(&none, nullptr, 0, nullptr) == REBNN_OK, "%s", rebnn_last_error());
  CHECK(rebnn_roi_align_run(&good, memory, needed, nullptr) == REBNN_OK, "%s", rebnn_last_error());
  for (float value : y) CHECK(value == 1.0f, "a map of ones gives %g", static_cast<double>(value));
}

void Pools() {
  const std::vector<float> x(4 * 4 + 1, 1.0f);
  std::vector<float> y(2 * 2 + 1, 3.0f);
  const rebnn_average_pool_io good = {1, 4, 4, 1, 0, x.data(), y.data()};
  const struct {
    const char* words;
    std::function<void(rebnn_average_pool_io&)> change;
  } wrong[] = {
      {"a size is -1", [](auto& io) { io.n = -1; }},
      {"ceil_mode is 2", [](auto& io) { io.ceil_mode = 2; }},
      {"larger than memory can be", [](auto& io) { io.n = io.h = io.w = 2147483647; }},
      {"x is NULL", [](auto& io) { io.x = nullptr; }},
      {"x is not aligned", [&](auto& io) { io.x = OffByOne(x.data()); }},
      {"y is not aligned", [&](auto& io) { io.y = OffByOne(y.data()); }},
  };
  for (const auto& one : wrong) {
    rebnn_average_pool_io io = good;
    one.change(io);
    Says(rebnn_average_pool_run(&io, nullptr), one.words);
  }
  for (float value : y) CHECK(value == 3.0f, "an output was written in spite of the error");
  CHECK(rebnn_average_pool_run(&good, nullptr) == REBNN_OK && y[0] == 1.0f, "%s", rebnn_last_error());
}

void Upsamplings() {
  const std::vector<float> x(2 * 2 + 1, 1.0f), added(4 * 4 + 1, 2.0f);
  std::vector<float> y(4 * 4 + 1, 5.0f);
  const rebnn_upsample_add_io good = {1, 2, 2, 1, x.data(), added.data(), y.data()};
  const struct {
    const char* words;
    std::function<void(rebnn_upsample_add_io&)> change;
  } wrong[] = {
      {"a size is -1", [](auto& io) { io.h = -1; }},
      {"larger than memory can be", [](auto& io) { io.n = io.h = io.w = 2147483647; }},
      // x alone would fit.
      {"larger than memory can be", [](auto& io) { io.n = 2147483647, io.h = 1 << 28; }},
      {"x is NULL", [](auto& io) { io.x = nullptr; }},
      {"added is NULL", [](auto& io) { io.added = nullptr; }},
      {"y is NULL", [](auto& io) { io.y = nullptr; }},
      {"x is not aligned", [&](auto& io) { io.x = OffByOne(x.data()); }},
      {"added is not aligned", [&](auto& io) { io.added = OffByOne(added.data()); }},
      {"y is not aligned", [&](auto& io) { io.y = OffByOne(y.data()); }},
  };
  for (const auto& one : wrong) {
    rebnn_upsample_add_io io = good;
    one.change(io);
    Says(rebnn_upsample_add_run(&io, nullptr), one.words);
  }
  const rebnn_parallel nothing = {};
  Says(rebnn_upsample_add_run(&good, &nothing), "parallel has no run function");
  for (float value : y) CHECK(value == 5.0f, "an output was written in spite of the error");
  CHECK(rebnn_upsample_add_run(&good, nullptr) == REBNN_OK, "%s", rebnn_last_error());
  for (int i = 0; i < 16; ++i) CHECK(y[i] == 3.0f, "1 and 2 give %g", static_cast<double>(y[i]));
  CHECK(y[16] == 5.0f, "more was written than there is");
  rebnn_upsample_add_io none = good;
  none.n = 0;
  none.w = none.channels = 2147483647;
  none.x = none.added = nullptr;
  CHECK(rebnn_upsample_add_run(&none, nullptr) == REBNN_OK, "%s", rebnn_last_error());
}

}  // namespace

int main() {
  RequireIsa();
  CHECK(rebnn_abi_version() == REBNN_ABI_VERSION, "the header is of another version than the library");
  Descriptions();
  const rebnn_conv_desc desc = Good();
  const std::vector<uint8_t> weights(32 * 9 * 8);
  rebnn_conv* conv = nullptr;
  CHECK(rebnn_conv_create(&desc, weights.data(), weights.size(), &conv) == REBNN_OK, "%s", rebnn_last_error());
  Sizes(conv);
  Runs(conv);
  rebnn_conv_destroy(conv);
  Regions();
  Pools();
  Upsamplings();
  std::printf("every wrong argument gives its sentence\n");
}
