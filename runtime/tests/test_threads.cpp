// Parallel runs give what serial ones give, several threads may run one convolution at once, and a run allocates
// nothing. Built with -fsanitize=thread as well, to show that no memory is shared by accident.
#include <atomic>
#include <cinttypes>
#include <thread>

#include "allocations.h"
#include "reference.h"

namespace {

// As plain as a pool can be: each call starts its threads. Tasks are taken from the last to the first, because nothing
// may rely on their order.
struct Pool {
  size_t threads;
  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> most_tasks{0};

  static void RunTasks(void* pool, size_t tasks, void (*task)(void*, size_t), void* arg) {
    Pool& self = *static_cast<Pool*>(pool);
    ++self.calls;
    if (self.most_tasks < static_cast<int64_t>(tasks)) self.most_tasks = static_cast<int64_t>(tasks);
    std::atomic<size_t> left{tasks};
    const auto work = [&] {
      for (size_t i = left; i > 0;) {
        if (left.compare_exchange_weak(i, i - 1)) {
          task(arg, i - 1);
          i = left;
        }
      }
    };
    std::vector<std::thread> helpers;
    for (size_t i = 1; i < self.threads; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
  }
};

// A problem with every output, and what a run without threads gives.
struct Case {
  Problem problem;
  rebnn_layout layout;
  std::vector<float> parameters, residual, y;
  std::vector<int32_t> sums;
  std::vector<uint8_t> x_bits, y_bits;
  Conv conv;

  Case(const rebnn_conv_desc& desc, int64_t n, int64_t size, rebnn_layout order, bool packed, Random& random)
      : problem(desc, n, size, size + 1, random, true), layout(order) {
    parameters = AnyReals(random, desc.out_channels);
    residual = AnyReals(random, problem.Outputs());
    if (packed) x_bits = problem.PackedInput();
    conv = CreateConv(problem);
    RunInto(&y, &sums, &y_bits, nullptr);
  }

  void RunInto(std::vector<float>* reals, std::vector<int32_t>* ints, std::vector<uint8_t>* bits,
               const rebnn_parallel* parallel) const {
    reals->assign(problem.Outputs(), 0.0f);
    ints->assign(problem.Outputs(), 0);
    bits->assign(problem.n * problem.out_h * problem.out_w * CeilDiv(problem.desc.out_channels, 8), 0xff);
    rebnn_conv_io io = {};
    io.layout = layout;
    if (x_bits.empty()) {
      io.x = problem.x.data();
      io.shift = problem.shift.data();
    } else {
      io.x_bits = x_bits.data();
    }
    io.sums = ints->data();
    io.scale = io.add = io.slope = io.next_shift = parameters.data();
    io.residual = residual.data();
    io.y = reals->data();
    io.y_bits = bits->data();
    Run(conv.get(), problem, io, parallel);
  }

  void CheckRun(const rebnn_parallel* parallel) const {
    std::vector<float> reals;
    std::vector<int32_t> ints;
    std::vector<uint8_t> bits;
    RunInto(&reals, &ints, &bits, parallel);
    CHECK(ints == sums && bits == y_bits, "%s: another run gives other sums or bits", problem.Text().c_str());
    for (size_t i = 0; i < y.size(); ++i) CHECK(SameReal(reals[i], y[i]), "%s: y[%zu]", problem.Text().c_str(), i);
  }
};

void AllocatesNothing(const Case& test) {
  CHECK(allocations > 0, "creating a convolution allocates, but no call was counted");
  std::vector<float> y(test.problem.Outputs());
  rebnn_conv_io io = {};
  io.n = test.problem.n;
  io.h = test.problem.h;
  io.w = test.problem.w;
  io.x = test.problem.x.data();
  io.y = y.data();
  const Scratch scratch(ScratchSize(test.conv.get(), test.problem));
  const int64_t before = allocations;
  const rebnn_status status = rebnn_conv_run(test.conv.get(), &io, scratch.get(), scratch.bytes(), nullptr);
  const int64_t after = allocations;
  CHECK(status == REBNN_OK, "%s", rebnn_last_error());
  CHECK(after == before, "a run allocated memory %" PRId64 " times", after - before);
}

// Neither do preparing an image and attention.
void NothingElseAllocates() {
  constexpr int64_t kSide = 40, kLength = 20, kHeads = 2, kSize = 16;
  std::vector<uint8_t> pixels(3 * kSide * kSide, 100);
  std::vector<float> constants(3, 1.0f), image(3 * kSide * kSide / 4);
  rebnn_image_io io = {};
  io.height = io.width = kSide;
  io.row_bytes = 3 * kSide;
  io.image = pixels.data();
  for (int axis = 0; axis < 2; ++axis) io.resized[axis] = kSide, io.crop[2 + axis] = io.size[axis] = kSide / 2;
  io.mean = io.std = io.fill = constants.data();
  io.y = image.data();
  const std::vector<float> q(kLength * kHeads * kSize, 0.5f);
  std::vector<float> attended(q.size());
  rebnn_attention_io attention = {};
  attention.batch = 1;
  attention.length = kLength;
  attention.heads = kHeads;
  attention.head_size = kSize;
  attention.q = attention.k = attention.v = q.data();
  attention.y = attended.data();
  size_t image_bytes = 0, attention_bytes = 0;
  CHECK(rebnn_image_scratch_size(&io, &image_bytes) == REBNN_OK, "%s", rebnn_last_error());
  CHECK(rebnn_attention_scratch_size(&attention, 1, &attention_bytes) == REBNN_OK, "%s", rebnn_last_error());
  const Scratch image_scratch(image_bytes), attention_scratch(attention_bytes);
  const int64_t before = allocations;
  for (const int64_t side : {kSide / 2, kSide - 7, kSide}) {  // halved, resized, as it is
    for (int axis = 0; axis < 2; ++axis) io.resized[axis] = side;
    size_t bytes = 0;
    CHECK(rebnn_image_scratch_size(&io, &bytes) == REBNN_OK && bytes <= image_bytes, "more scratch memory");
    CHECK(rebnn_image_rows(&io, 0, kSide / 2, image_scratch.get(), image_bytes) == REBNN_OK, "%s", rebnn_last_error());
  }
  CHECK(rebnn_attention_run(&attention, attention_scratch.get(), attention_bytes, nullptr) == REBNN_OK, "%s",
        rebnn_last_error());
  const int64_t after = allocations;
  CHECK(after == before, "an image or attention allocated memory %" PRId64 " times", after - before);
  CHECK(image[0] == 99 && attended[0] != 0, "nothing was computed");
}

// An image of one row is work for several threads.
void SharesOutChannels(Random& random) {
  const Case test(Description(2048, 300, 1, 3, 1, 1, 1, 0), 1, 1, REBNN_NHWC, true, random);
  Pool pool;
  pool.threads = 4;
  const rebnn_parallel parallel = {Pool::RunTasks, &pool, pool.threads};
  test.CheckRun(&parallel);
  CHECK(pool.most_tasks >= 4, "4 threads had at most %" PRId64 " tasks of one row", pool.most_tasks.load());
}

// Threads take regions from one another; so do several runs at once with threads of their own.
void SharesOutRegions(Random& random) {
  constexpr int64_t kSide = 20, kChannels = 70, kRegions = 40, kBins = 3;
  const std::vector<float> x = AnyReals(random, kSide * kSide * kChannels);
  const std::vector<int64_t> images(kRegions);
  std::vector<float> rois;
  for (int64_t i = 0; i < kRegions; ++i) {
    for (int64_t corner : {i % 7 - 2, i % 5 - 1, i, i / 2 + 3}) rois.push_back(static_cast<float>(corner));
  }
  const auto run = [&](size_t threads, const rebnn_parallel* parallel) {
    std::vector<float> y(kRegions * kBins * kBins * kChannels);
    const rebnn_roi_align_io io = {1, kSide, kSide, kChannels, kRegions, {kBins, kBins}, 0, 1.0f, 1,
                                   x.data(), rois.data(), images.data(), y.data()};
    size_t bytes = 0;
    CHECK(rebnn_roi_align_scratch_size(&io, threads, &bytes) == REBNN_OK, "%s", rebnn_last_error());
    const Scratch scratch(bytes);
    CHECK(rebnn_roi_align_run(&io, scratch.get(), bytes, parallel) == REBNN_OK, "%s", rebnn_last_error());
    return y;
  };
  const std::vector<float> wanted = run(1, nullptr);
  const auto check = [&] {
    Pool pool;
    pool.threads = 4;
    const rebnn_parallel parallel = {Pool::RunTasks, &pool, pool.threads};
    const std::vector<float> y = run(pool.threads, &parallel);
    CHECK(pool.most_tasks == 4, "4 threads had %" PRId64 " tasks", pool.most_tasks.load());
    for (size_t i = 0; i < y.size(); ++i) CHECK(SameReal(y[i], wanted[i]), "regions: y[%zu]", i);
  };
  std::thread other(check);
  check();
  other.join();
}

// Errors belong to the thread in which they happened.
void KeepsErrorsApart() {
  rebnn_conv* conv = nullptr;
  CHECK(rebnn_conv_create(nullptr, nullptr, 0, &conv) == REBNN_INVALID_ARGUMENT, "no error");
  const std::string mine = rebnn_last_error();
  std::thread([] {
    CHECK(rebnn_last_error()[0] == '\0', "a new thread begins with an error: %s", rebnn_last_error());
    CHECK(rebnn_conv_create(nullptr, nullptr, 0, nullptr) == REBNN_INVALID_ARGUMENT, "no error");
  }).join();
  CHECK(mine == rebnn_last_error(), "another thread's error replaced this one's: %s", rebnn_last_error());
}

}  // namespace

int main() {
  RequireIsa();
  Random random(20231123);
  std::vector<Case> cases;
  for (rebnn_layout layout : {REBNN_NCHW, REBNN_NHWC}) {
    for (bool packed : {false, true}) {
      cases.emplace_back(Description(64, 40, 1, 3, 1, 1, 1, 0), 1, 28, layout, packed, random);
      cases.emplace_back(Description(33, 100, 1, 3, 2, 1, 1, -1), 3, 9, layout, packed, random);
      cases.emplace_back(Description(24, 36, 4, 3, 1, 2, 2, 1), 2, 7, layout, packed, random);
      cases.emplace_back(Description(70, 20, 1, 1, 1, 1, 0, 0), 5, 1, layout, packed, random);
      cases.emplace_back(Description(2048, 300, 1, 3, 1, 1, 1, -1), 1, 1, layout, packed, random);
      cases.emplace_back(Description(256, 400, 2, 3, 1, 1, 1, 1), 1, 4, layout, packed, random);
      cases.emplace_back(Description(1024, 604, 4, 3, 1, 1, 1, 0), 1, 2, layout, packed, random);
    }
  }
  AllocatesNothing(cases[0]);
  NothingElseAllocates();
  KeepsErrorsApart();
  SharesOutChannels(random);
  SharesOutRegions(random);

  for (size_t threads : {1, 2, 3, 8}) {
    Pool pool;
    pool.threads = threads;
    const rebnn_parallel parallel = {Pool::RunTasks, &pool, threads};
    for (const Case& test : cases) test.CheckRun(&parallel);
    CHECK(threads == 1 || (pool.calls > 0 && pool.most_tasks >= static_cast<int64_t>(threads)),
          "%zu threads had at most %" PRId64 " tasks", threads, pool.most_tasks.load());
  }

  // Every thread runs every convolution, beginning with another one; half of them with threads of their own.
  std::vector<std::thread> threads;
  for (size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      Pool pool;
      pool.threads = 2;
      const rebnn_parallel parallel = {Pool::RunTasks, &pool, 2};
      for (size_t i = 0; i < cases.size(); ++i)
        cases[(first + i) % cases.size()].CheckRun(first % 2 ? &parallel : nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%zu convolutions: the same from 1 to 8 threads and run by 4 threads at once\n", cases.size());
}
