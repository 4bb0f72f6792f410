// Times the binary convolutions of ResNet-18 on one thread with every instruction set that is here: medians of the
// thread's own time, and the ratio to plain C++.
//
//   bench_conv [repetitions]
//
// "convolution": packed input to real output with one factor. "block": with batch norm, residual, PReLU and the next
// layer's bits. "from reals": the block with real input, packed first. All NHWC. "stem": the first layer in fp32.
// The last lines compare with what the core could do if it did nothing but compare, count and add, popcount_limit.h:
// for all 9 products of every output, as operations are counted, and for those that are not on the border.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "popcount_limit.h"
#include "reference.h"

namespace {

struct Layer {
  int64_t in, out, size, stride;
  int count;  // in ResNet-18
};

constexpr Layer kLayers[] = {{64, 64, 56, 1, 4},   {64, 128, 56, 2, 1},  {128, 128, 28, 1, 3}, {128, 256, 28, 2, 1},
                             {256, 256, 14, 1, 3}, {256, 512, 14, 2, 1}, {512, 512, 7, 1, 3}};
constexpr int kLayerCount = sizeof kLayers / sizeof *kLayers;
constexpr int kKinds = 3;
constexpr const char* kKindNames[kKinds] = {"convolution", "block", "from reals"};

struct Times {
  double ms[kLayerCount][kKinds];
  double stem_ms;
  double limit;  // products per second
};

// The thread's own time, so that what else the machine does counts little.
double Milliseconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

template <class Call>
double Median(int repetitions, const Call& call) {
  std::vector<double> times;
  for (int i = 0; i < repetitions + repetitions / 4 + 1; ++i) {
    const double start = Milliseconds();
    CHECK(call() == REBNN_OK, "%s", rebnn_last_error());
    const double end = Milliseconds();
    if (i > repetitions / 4) times.push_back(end - start);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

double Median(const rebnn_conv* conv, const rebnn_conv_io& io, const Scratch& scratch, int repetitions) {
  return Median(repetitions,
                [&] { return rebnn_conv_run(conv, &io, scratch.get(), scratch.bytes(), nullptr); });
}

double MeasureStem(int repetitions) {
  Random random(1);
  const auto uniform = [&](size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
    return values;
  };
  const std::vector<float> x = uniform(3 * 224 * 224), weights = uniform(64 * 3 * 49), parameters = uniform(64);
  std::vector<float> y(56 * 56 * 64);
  rebnn_stem* stem = nullptr;
  CHECK(rebnn_stem_create(3, 64, weights.data(), parameters.data(), parameters.data(), &stem) == REBNN_OK, "%s",
        rebnn_last_error());
  size_t bytes = 0;
  CHECK(rebnn_stem_scratch_size(stem, 1, 224, 224, 1, &bytes) == REBNN_OK, "%s", rebnn_last_error());
  const Scratch scratch(bytes);
  const rebnn_stem_io io = {1, 224, 224, x.data(), REBNN_NHWC, y.data()};
  const double ms =
      Median(repetitions, [&] { return rebnn_stem_run(stem, &io, scratch.get(), scratch.bytes(), nullptr); });
  rebnn_stem_destroy(stem);
  return ms;
}

Times Measure(int repetitions) {
  Times times = {};
  times.limit = PopcountLimit(rebnn_isa());
  Random random(1);
  for (int i = 0; i < kLayerCount; ++i) {
    const Layer& layer = kLayers[i];
    Problem problem(Description(layer.in, layer.out, 1, 3, layer.stride, 1, 1, 0), 1, layer.size, layer.size, random,
                    true);
    const auto uniform = [&](std::vector<float>& values) {
      for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
    };
    uniform(problem.x);
    uniform(problem.shift);
    std::vector<float> parameters[7];
    for (auto& values : parameters) {
      values.resize(layer.out);
      uniform(values);
    }
    std::vector<float> residual(problem.Outputs());
    uniform(residual);
    std::vector<float> y(problem.Outputs());
    std::vector<uint8_t> y_bits(problem.Outputs() / 8);
    const std::vector<uint8_t> x_bits = problem.PackedInput();
    const Conv conv = CreateConv(problem);
    const Scratch scratch(ScratchSize(conv.get(), problem));

    rebnn_conv_io io = {};
    io.n = 1;
    io.h = io.w = layer.size;
    io.layout = REBNN_NHWC;
    io.x_bits = x_bits.data();
    io.scale = parameters[0].data();
    io.y = y.data();
    times.ms[i][0] = Median(conv.get(), io, scratch, repetitions);
    io.mul = parameters[1].data();
    io.add = parameters[2].data();
    io.residual = residual.data();
    io.pre = parameters[3].data();
    io.slope = parameters[4].data();
    io.post = parameters[5].data();
    io.next_shift = parameters[6].data();
    io.y_bits = y_bits.data();
    times.ms[i][1] = Median(conv.get(), io, scratch, repetitions);
    io.x_bits = nullptr;
    io.x = problem.x.data();
    io.shift = problem.shift.data();
    times.ms[i][2] = Median(conv.get(), io, scratch, repetitions);
  }
  times.stem_ms = MeasureStem(repetitions);
  times.limit = std::max(times.limit, PopcountLimit(rebnn_isa()));
  return times;
}

// In a process of its own, because a process keeps its instruction set. False if this processor lacks it.
bool MeasureWith(const char* isa, int repetitions, Times* times) {
  int ends[2];
  CHECK(pipe(ends) == 0, "no pipe");
  std::fflush(stdout);
  const pid_t child = fork();
  CHECK(child >= 0, "no process");
  if (child == 0) {
    setenv("REBNN_ISA", isa, 1);
    if (!rebnn_isa()) _exit(kSkipped);
    const Times measured = Measure(repetitions);
    _exit(write(ends[1], &measured, sizeof measured) == sizeof measured ? 0 : 1);
  }
  close(ends[1]);
  const bool whole = read(ends[0], times, sizeof *times) == sizeof *times;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(whole || (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped), "the measurement with %s failed", isa);
  return whole;
}

double GigaMacs(const Layer& layer) {
  const double side = static_cast<double>(layer.size / layer.stride);
  return 9e-9 * static_cast<double>(layer.in * layer.out) * side * side;
}

// Those whose input is inside of the image; with stride 2 only the first row and column of outputs reach beyond it.
double GigaMacsInside(const Layer& layer) {
  const double taps = static_cast<double>(3 * (layer.size / layer.stride) - (layer.stride == 1 ? 2 : 1));
  return 1e-9 * static_cast<double>(layer.in * layer.out) * taps * taps;
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 200;
  CHECK(repetitions > 0, "the argument must be a positive number, not '%s'", argv[1]);
  double portable[kKinds] = {};
  // From the slowest on, with which the others are compared.
  std::string names = rebnn_isas();
  while (!names.empty()) {
    const size_t comma = names.rfind(", ");
    const std::string last = comma == std::string::npos ? names : names.substr(comma + 2);
    names.resize(comma == std::string::npos ? 0 : comma);
    const char* isa = last.c_str();
    Times times;
    if (!MeasureWith(isa, repetitions, &times)) continue;
    std::printf("%s\n%-22s", isa, "  layer, 3x3");
    for (const char* kind : kKindNames) std::printf("%20s", kind);
    std::printf("\n");
    double sum[kKinds] = {};
    double macs = 0, macs_inside = 0;
    for (int i = 0; i < kLayerCount; ++i) {
      const Layer& layer = kLayers[i];
      std::printf("  %3lld -> %3lld, %2lld /%lld %s", (long long)layer.in, (long long)layer.out, (long long)layer.size,
                  (long long)layer.stride, "  ");
      for (int kind = 0; kind < kKinds; ++kind) {
        std::printf("%9.3f ms %4.0f G/s", times.ms[i][kind], 1e3 * GigaMacs(layer) / times.ms[i][kind]);
        sum[kind] += layer.count * times.ms[i][kind];
      }
      macs += layer.count * GigaMacs(layer);
      macs_inside += layer.count * GigaMacsInside(layer);
      std::printf("\n");
    }
    std::printf("  all 16 of ResNet-18 ");
    for (double all : sum) std::printf("%9.3f ms %4.0f G/s", all, 1e3 * macs / all);
    std::printf("\n  stem, 224x224       %9.3f ms", times.stem_ms);
    if (portable[0] == 0) std::copy(sum, sum + kKinds, portable);
    std::printf("\n  portable takes      ");
    for (int kind = 0; kind < kKinds; ++kind) std::printf("%15.2f x    ", portable[kind] / sum[kind]);
    std::printf("\n");
    if (times.limit == 0) continue;
    std::printf("  popcount limit: %.0f G/s", 1e-9 * times.limit);
    for (double products : {macs, macs_inside}) {
      std::printf("\n  reached%s", products == macs ? "             " : ", no border  ");
      for (double all : sum) std::printf("%15.1f %%    ", 100 * 1e12 * products / all / times.limit);
    }
    std::printf("\n");
  }
}
