// Random and damaged descriptions, sizes, weights, pointers and scratch memory. Every call must end with an error that
// is due, and a sentence for it, or with the right answer. Build it with -fsanitize=address,undefined: buffers have
// exactly the size that the call may touch.
//
//   fuzz_conv CASES SEED
//
// A case depends on the seed and its own number only; what fails is printed with both, and `fuzz_conv 1 SEED NUMBER`
// repeats it.
#include <algorithm>
#include <cinttypes>

#include "reference.h"

namespace {

// For sizes and their products, which are compared with numbers that double holds where addresses have 32 bits.
#if defined(__SIZEOF_INT128__)
using Wide = __int128;
#else
using Wide = double;
#endif

constexpr int64_t kMaxSide = 2147483647;
constexpr int64_t kMaxTerms = 16777216;
// What a case may cost; larger ones are asked about but not run.
constexpr Wide kMaxElements = 1 << 14;
constexpr Wide kMaxMacs = 1 << 20;

uint64_t seed = 0;
int64_t number = 0;

#define FUZZ_CHECK(holds, ...)                                                                \
  do {                                                                                        \
    if (!(holds)) std::fprintf(stderr, "seed %" PRIu64 ", case %" PRId64 ": ", seed, number); \
    CHECK(holds, __VA_ARGS__);                                                                \
  } while (0)

// What hostile files write into a number.
int64_t Damaged(int64_t value, Random& random) {
  constexpr int64_t kValues[] = {0,         -1,         1,       kMaxSide,          kMaxSide + 1,
                                 INT64_MAX, INT64_MIN,  1 << 16, kMaxTerms,         kMaxTerms + 1,
                                 INT32_MIN, 4294967296, 1 << 30, INT64_MAX / 2 + 1, 4294967297};
  switch (Between(random, 0, 3)) {
    case 0:
      return kValues[Between(random, 0, sizeof kValues / sizeof *kValues - 1)];
    case 1:
      return static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(Between(random, -2, 2)));
    case 2:
      return static_cast<int64_t>(static_cast<uint64_t>(value) ^ uint64_t{1} << Between(random, 0, 63));
    default:
      return Between(random, -100, 100);
  }
}

bool Chance(Random& random, int64_t one_in) { return Between(random, 1, one_in) == 1; }

rebnn_conv_desc AnyDescription(Random& random) {
  rebnn_conv_desc desc = {};
  desc.group = Chance(random, 3) ? Between(random, 1, 5) : 1;
  desc.in_channels = desc.group * (Chance(random, 10) ? Between(random, 1, 300) : Between(random, 1, 40));
  desc.out_channels = desc.group * (Chance(random, 10) ? Between(random, 1, 150) : Between(random, 1, 40));
  for (int axis = 0; axis < 2; ++axis) {
    desc.kernel[axis] = Between(random, 1, 5);
    desc.stride[axis] = Chance(random, 20) ? Between(random, 1, 1000) : Between(random, 1, 3);
    desc.dilation[axis] = Chance(random, 20)  ? Between(random, 1, 1000)
                          : Chance(random, 2) ? 1
                                              : Between(random, 1, 6);
    desc.pad[axis] = Chance(random, 20) ? Between(random, 0, 1000) : Between(random, 0, 6);
    desc.pad[axis + 2] = Chance(random, 20) ? Between(random, 0, 1000) : Between(random, 0, 6);
  }
  desc.pad_value = static_cast<int32_t>(Between(random, -1, 1));
  return desc;
}

void Damage(rebnn_conv_desc* desc, Random& random) {
  int64_t* const fields[] = {&desc->in_channels, &desc->out_channels, &desc->group,     &desc->kernel[0],
                             &desc->kernel[1],   &desc->stride[0],    &desc->stride[1], &desc->dilation[0],
                             &desc->dilation[1], &desc->pad[0],       &desc->pad[1],    &desc->pad[2],
                             &desc->pad[3]};
  for (int64_t i = Between(random, 1, 3); i > 0; --i) {
    const int64_t field = Between(random, 0, sizeof fields / sizeof *fields);
    if (field == sizeof fields / sizeof *fields) {
      desc->pad_value = static_cast<int32_t>(Damaged(desc->pad_value, random));
    } else {
      *fields[field] = Damaged(*fields[field], random);
    }
  }
}

bool Valid(const rebnn_conv_desc& d) {
  const auto in_range = [](int64_t value, int64_t least) { return value >= least && value <= kMaxSide; };
  if (!in_range(d.in_channels, 1) || !in_range(d.out_channels, 1) || !in_range(d.group, 1)) return false;
  for (int axis = 0; axis < 2; ++axis) {
    if (!in_range(d.kernel[axis], 1) || !in_range(d.stride[axis], 1) || !in_range(d.dilation[axis], 1)) return false;
    if (!in_range(d.pad[axis], 0) || !in_range(d.pad[axis + 2], 0)) return false;
  }
  if (d.pad_value < -1 || d.pad_value > 1 || d.in_channels % d.group || d.out_channels % d.group) return false;
  return Wide(d.in_channels / d.group) * d.kernel[0] * d.kernel[1] <= kMaxTerms;
}

// Height and width of the output, or 0.
int64_t OutputSide(const rebnn_conv_desc& d, int axis, int64_t size) {
  if (size < 1 || size > kMaxSide) return 0;
  const int64_t spare = size + d.pad[axis] + d.pad[axis + 2] - (d.kernel[axis] - 1) * d.dilation[axis] - 1;
  return spare < 0 ? 0 : spare / d.stride[axis] + 1;
}

bool FitsMemory(std::initializer_list<int64_t> factors) {
  Wide product = 1;
  for (int64_t factor : factors) {
    product *= factor;
    if (product == 0) return true;
  }
  product = 1;
  for (int64_t factor : factors) {
    product *= factor;
    if (product > PTRDIFF_MAX) return false;
  }
  return true;
}

void CheckSentence() {
  const size_t length = std::strlen(rebnn_last_error());
  FUZZ_CHECK(length > 20 && length < 500 && rebnn_last_error()[length - 1] == '.', "no sentence: '%s'",
             rebnn_last_error());
}

// Runs a valid convolution on a size that is small enough; pointers, scratch and layout may be wrong. Whether it ran
// to the end.
bool RunCase(const rebnn_conv* conv, Problem problem, Random& random) {
  const rebnn_conv_desc& desc = problem.desc;
  const bool packed = Between(random, 0, 1);
  const bool planes = Between(random, 0, 1);
  const int64_t pixels = problem.out_h * problem.out_w;
  const std::vector<int64_t> sums = problem.Sums();
  std::vector<uint8_t> bits = problem.PackedInput();
  if (const int64_t used = desc.in_channels % 8) {
    const int64_t bytes = CeilDiv(desc.in_channels, 8);
    for (size_t i = bytes - 1; i < bits.size(); i += bytes) bits[i] |= static_cast<uint8_t>(random() << used);
  }
  std::vector<float> x = problem.x;
  if (planes) x = ToPlanes(x, problem.n, problem.h * problem.w, desc.in_channels);
  Steps steps;
  for (auto* values :
       {&steps.scale, &steps.mul, &steps.add, &steps.pre, &steps.slope, &steps.post, &steps.next_shift}) {
    if (Between(random, 0, 1)) *values = AnyReals(random, desc.out_channels);
  }
  if (Between(random, 0, 1)) steps.clip = {-0.5f, 2.0f};
  if (Between(random, 0, 1)) steps.residual = AnyReals(random, problem.Outputs());
  std::vector<float> expected_y;
  std::vector<uint8_t> expected_bits;
  steps.Apply(problem, sums, &expected_y, &expected_bits);
  std::vector<float> residual = steps.residual;
  if (planes && !residual.empty()) residual = ToPlanes(residual, problem.n, pixels, desc.out_channels);
  if (planes) expected_y = ToPlanes(expected_y, problem.n, pixels, desc.out_channels);

  std::vector<float> y(problem.Outputs());
  std::vector<int32_t> out_sums(problem.Outputs());
  std::vector<uint8_t> y_bits(expected_bits.size(), 0xff);
  rebnn_conv_io io = {};
  io.n = problem.n;
  io.h = problem.h;
  io.w = problem.w;
  io.layout = planes ? REBNN_NCHW : REBNN_NHWC;
  if (packed) {
    io.x_bits = bits.data();
  } else {
    io.x = x.data();
    io.shift = OrNull(problem.shift);
  }
  if (Between(random, 0, 3)) io.y = y.data();
  if (Between(random, 0, 1)) io.y_bits = y_bits.data();
  if (Between(random, 0, 1)) io.sums = out_sums.data();
  if (!io.y && !io.y_bits && !Chance(random, 10)) io.y = y.data();
  io.scale = OrNull(steps.scale);
  io.mul = OrNull(steps.mul);
  io.add = OrNull(steps.add);
  io.residual = OrNull(residual);
  io.pre = OrNull(steps.pre);
  io.slope = OrNull(steps.slope);
  io.post = OrNull(steps.post);
  io.clip = OrNull(steps.clip);
  if (io.y_bits || Chance(random, 20)) io.next_shift = OrNull(steps.next_shift);

  bool good = true;
  if (Chance(random, 10)) {
    switch (Between(random, 0, 3)) {
      case 0:
        io.x = nullptr;
        break;
      case 1:
        io.x_bits = bits.data();
        break;
      case 2:
        io.layout = static_cast<int32_t>(Damaged(2, random));
        good = problem.n == 0 || io.layout == REBNN_NCHW || io.layout == REBNN_NHWC;
        if (good) return false;
        break;
      default:
        if (packed) io.shift = x.data();
        break;
    }
  }
  const bool any_step = io.scale || io.mul || io.add || io.residual || io.pre || io.slope || io.post || io.clip;
  if (problem.n > 0) {
    good = good && !io.x != !io.x_bits && (io.x || !io.shift) && (io.sums || io.y || io.y_bits) &&
           (io.y_bits || !io.next_shift) && (io.y || io.y_bits || !any_step);
  }
  const size_t needed = ScratchSize(conv, problem);
  const bool needs_scratch = io.x || desc.in_channels / desc.group % 64 != 0;
  size_t given = needed;
  if (Chance(random, 10)) given = needed - static_cast<size_t>(Between(random, 0, static_cast<int64_t>(needed)));
  const Scratch scratch(given);
  if (given < needed && problem.n > 0 && needs_scratch) {
    // Packed channels may happen to fill this instruction set's words; then less scratch is enough.
    if (io.x) good = false;
    if (!io.x && good) return false;
  }
  const rebnn_status status = rebnn_conv_run(conv, &io, scratch.get(), scratch.bytes(), nullptr);
  FUZZ_CHECK((status == REBNN_OK) == good, "%s: status %d, %s", problem.Text().c_str(), status, rebnn_last_error());
  if (!good) {
    CheckSentence();
    return false;
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    FUZZ_CHECK(!io.sums || out_sums[i] == sums[i], "%s: sum %zu is %d, not %" PRId64, problem.Text().c_str(), i,
               out_sums[i], sums[i]);
    FUZZ_CHECK(!io.y || SameReal(y[i], expected_y[i]), "%s: y[%zu] is %a, not %a", problem.Text().c_str(), i, y[i],
               expected_y[i]);
  }
  FUZZ_CHECK(!io.y_bits || y_bits == expected_bits, "%s: the packed output is wrong", problem.Text().c_str());
  return true;
}

// Whether the case ran to the end.
bool Case(Random& random) {
  rebnn_conv_desc desc = AnyDescription(random);
  if (Chance(random, 5)) Damage(&desc, random);
  const bool valid = Valid(desc);

  // Weights of the right size where that is small, and sometimes not.
  Wide wanted =
      valid ? Wide(desc.out_channels) * desc.kernel[0] * desc.kernel[1] * CeilDiv(desc.in_channels / desc.group, 8)
            : 0;
  const bool payable = wanted <= 1 << 18;
  int64_t bytes = payable && valid ? static_cast<int64_t>(wanted) : Between(random, 0, 1000);
  if (Chance(random, 20)) bytes = std::max<int64_t>(0, bytes + Between(random, -3, 3));
  int64_t n = Chance(random, 10) ? 0 : Between(random, 1, 2);
  int64_t h = Between(random, 1, 9);
  int64_t w = Between(random, 1, 9);
  if (Chance(random, 10)) {
    int64_t* const sizes[] = {&n, &h, &w};
    int64_t* const size = sizes[Between(random, 0, 2)];
    *size = Damaged(*size, random);
  }
  const int64_t out_h = valid ? OutputSide(desc, 0, h) : 0;
  const int64_t out_w = valid ? OutputSide(desc, 1, w) : 0;
  const bool runs = valid && payable && bytes == wanted && out_h > 0 && out_w > 0 && n >= 0 && n <= 2 &&
                    Wide(h) * w * desc.in_channels <= kMaxElements &&
                    Wide(out_h) * out_w * desc.out_channels <= kMaxElements &&
                    wanted * 8 * out_h * out_w * n <= kMaxMacs;

  std::vector<uint8_t> weights(bytes);
  if (runs) {
    Problem problem(desc, n, h, w, random, Between(random, 0, 1));
    weights = problem.PackedWeights();
    bool filled = false;
    const int64_t used = desc.in_channels / desc.group % 8;
    if (used && Chance(random, 20)) {
      const int64_t row = CeilDiv(desc.in_channels / desc.group, 8);
      weights[Between(random, 1, bytes / row) * row - 1] |= static_cast<uint8_t>(1 << Between(random, used, 7));
      filled = true;
    }
    rebnn_conv* created = nullptr;
    const rebnn_status status = rebnn_conv_create(&desc, weights.data(), weights.size(), &created);
    const Conv conv(created);
    FUZZ_CHECK((status == REBNN_OK) == !filled, "%s: status %d, %s", problem.Text().c_str(), status,
               rebnn_last_error());
    if (filled) {
      CheckSentence();
      return false;
    }
    // The weights are the caller's again.
    std::fill(weights.begin(), weights.end(), uint8_t{0x5a});
    return RunCase(conv.get(), std::move(problem), random);
  }

  for (uint8_t& byte : weights) byte = desc.in_channels % 8 || desc.group > 1 ? 0 : static_cast<uint8_t>(random());
  rebnn_conv* created = nullptr;
  const rebnn_status status = rebnn_conv_create(&desc, weights.data(), weights.size(), &created);
  const Conv conv(created);
  const bool due = valid && payable && bytes == wanted;
  // A vector of no bytes may have no address.
  FUZZ_CHECK((status == REBNN_OK) == due, "status %d, %s", status, due ? rebnn_last_error() : "accepted");
  FUZZ_CHECK((conv != nullptr) == due, "a convolution is %s", conv ? "given in spite of the error" : "missing");
  if (!due) {
    CheckSentence();
    return false;
  }
  int64_t got_h = -5, got_w = -5;
  const rebnn_status size_status = rebnn_conv_output_size(conv.get(), h, w, &got_h, &got_w);
  const bool fits = out_h > 0 && out_w > 0;
  FUZZ_CHECK((size_status == REBNN_OK) == fits, "output size: status %d", size_status);
  FUZZ_CHECK(got_h == (fits ? out_h : -5) && got_w == (fits ? out_w : -5), "the output is %" PRId64 " x %" PRId64,
             got_h, got_w);
  size_t scratch = 0;
  const rebnn_status scratch_status = rebnn_conv_scratch_size(conv.get(), n, h, w, 1, &scratch);
  const bool sized = fits && n >= 0 && n <= kMaxSide && FitsMemory({n, h, w, desc.in_channels, 4}) &&
                     FitsMemory({n, out_h, out_w, desc.out_channels, 4});
  // The map of words can be larger than the input, so that it alone does not fit.
  FUZZ_CHECK(scratch_status != REBNN_OK || sized, "scratch of %zu bytes for sizes that are wrong", scratch);
  FUZZ_CHECK(scratch_status == REBNN_OK || !sized || !FitsMemory({n, h, w, desc.in_channels, 8}), "%s",
             rebnn_last_error());
  if (scratch_status != REBNN_OK) {
    CheckSentence();
    // Nothing of it may be read.
    rebnn_conv_io io = {};
    io.n = n;
    io.h = h;
    io.w = w;
    io.x = reinterpret_cast<const float*>(16);
    io.y = reinterpret_cast<float*>(16);
    FUZZ_CHECK(rebnn_conv_run(conv.get(), &io, nullptr, 0, nullptr) != REBNN_OK, "ran with sizes that are wrong");
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3 || argc == 4, "usage: fuzz_conv CASES SEED [FIRST]");
  const int64_t cases = std::atoll(argv[1]);
  seed = std::strtoull(argv[2], nullptr, 10);
  const int64_t first = argc == 4 ? std::atoll(argv[3]) : 0;
  RequireIsa();
  int64_t answers = 0;
  for (number = first; number < first + cases; ++number) {
    std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                           static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32)};
    Random random(sequence);
    answers += Case(random);
    if ((number + 1) % 10000 == 0) std::fprintf(stderr, "%" PRId64 " of %" PRId64 "\n", number + 1 - first, cases);
  }
  CHECK(cases < 100 || (answers > cases / 4 && answers < cases),
        "%" PRId64 " answers are not the mixture this is made for", answers);
  std::printf("%" PRId64 " cases: %" PRId64 " right answers, %" PRId64
              " errors that were due or sizes only asked about\n",
              cases, answers, cases - answers);
}
