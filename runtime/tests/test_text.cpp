// Attention and embedding against integers computed in the plainest way, their wrong arguments, and damaged ones at
// random. Build it with -fsanitize=address,undefined, too: buffers have exactly the size that a call may touch.
//
//   test_text [EVERY [CASES [SEED]]]
//
// EVERY: only every so-manieth case of the grid. CASES: so many random and damaged ones, from SEED.
#include <cinttypes>
#if !defined(__wasm__)
#include <thread>
#endif

#include "reference.h"

namespace {

struct Text {
  int64_t batch, length, heads, size;
  int32_t tie;
  std::vector<float> q, k, v;
  std::vector<uint8_t> mask;  // empty for none

  Text(int64_t batch, int64_t length, int64_t heads, int64_t size, int32_t tie, int masking, Random& random)
      : batch(batch), length(length), heads(heads), size(size), tie(tie) {
    const int64_t count = batch * length * heads * size;
    q = AnyReals(random, count);
    k = AnyReals(random, count);
    v = AnyReals(random, count);
    if (masking == 0) return;
    mask.resize(batch * length);
    for (int64_t text = 0; text < batch; ++text) {
      // 1: padding at the end; 2: anything; 3: the first text may attend to nothing.
      const int64_t known = Between(random, 1, length);
      for (int64_t j = 0; j < length; ++j) {
        uint8_t& value = mask[text * length + j];
        value = masking == 1 ? j < known : static_cast<uint8_t>(Between(random, 0, 2));
        if (masking == 3 && text == 0) value = 0;
      }
    }
  }

  rebnn_attention_io Io(float* y) const {
    return {batch, length, heads, size, q.data(), k.data(), v.data(), mask.empty() ? nullptr : mask.data(), tie, y};
  }

  std::vector<float> Expected() const {
    std::vector<float> y(q.size());
    const auto sign = [](float real) { return real < 0 ? -1 : 1; };
    const auto at = [&](int64_t text, int64_t i, int64_t h) { return ((text * length + i) * heads + h) * size; };
    for (int64_t text = 0; text < batch; ++text) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < length; ++i) {
          std::vector<int64_t> sums(size);
          for (int64_t j = 0; j < length; ++j) {
            int64_t score = 0;
            for (int64_t c = 0; c < size; ++c) score += sign(q[at(text, i, h) + c]) * sign(k[at(text, j, h) + c]);
            if (score < 0 || (score == 0 && !tie) || (!mask.empty() && !mask[text * length + j])) continue;
            for (int64_t c = 0; c < size; ++c) sums[c] += sign(v[at(text, j, h) + c]);
          }
          for (int64_t c = 0; c < size; ++c) y[at(text, i, h) + c] = static_cast<float>(sums[c]);
        }
      }
    }
    return y;
  }
};

// Starts threads for every call, or, where there are none, takes the last task first.
struct Pool {
  static void Run(void*, size_t tasks, void (*task)(void*, size_t), void* arg) {
#if defined(__wasm__)
    while (tasks) task(arg, --tasks);
#else
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 3; ++t) {
      threads.emplace_back([=] {
        for (size_t i = t; i < tasks; i += 3) task(arg, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
#endif
  }
};

void CheckText(const Text& text, bool parallel) {
  std::vector<float> y(text.q.size(), -7.25f);
  const rebnn_attention_io io = text.Io(y.data());
  size_t bytes = 0;
  const rebnn_parallel pool = {Pool::Run, nullptr, 3};
  CHECK(rebnn_attention_scratch_size(&io, parallel ? pool.threads : 1, &bytes) == REBNN_OK, "%s", rebnn_last_error());
  const Scratch scratch(bytes);
  CHECK(rebnn_attention_run(&io, scratch.get(), bytes, parallel ? &pool : nullptr) == REBNN_OK, "%s",
        rebnn_last_error());
  const std::vector<float> expected = text.Expected();
  for (size_t i = 0; i < y.size(); ++i) {
    CHECK(y[i] == expected[i], "batch %lld, length %lld, heads %lld, size %lld, tie %d, mask %d: y[%zu] is %g, not %g",
          (long long)text.batch, (long long)text.length, (long long)text.heads, (long long)text.size, text.tie,
          !text.mask.empty(), i, y[i], expected[i]);
  }
}

int64_t Grid(int64_t every) {
  Random random(1);
  int64_t number = 0, checked = 0;
  for (int64_t length : {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 129, 257}) {
    for (int64_t size : {1, 3, 8, 16, 17, 32, 33, 64, 65, 80, 128, 200}) {
      for (int32_t tie : {0, 1}) {
        for (int masking = 0; masking < 4; ++masking) {
          if (number++ % every) continue;
          CheckText(Text(1 + number % 2, length, 1 + number % 3, size, tie, masking, random), number % 5 == 0);
          ++checked;
        }
      }
    }
  }
  // Counts that do not fit in a byte or in 16 bits on their way.
  if (every == 1) CheckText(Text(1, 9000, 1, 3, 1, 0, random), false);
  if (every == 1) CheckText(Text(1, 3, 1, 70000, 1, 0, random), false);
  return checked;
}

void CheckRows(int64_t rows, int64_t channels, int64_t count, Random& random) {
  std::vector<int8_t> signs(rows * channels);
  for (int8_t& sign : signs) sign = Between(random, 0, 1) ? 1 : -1;
  const std::vector<uint8_t> table = PackSigns(signs, channels);
  const std::vector<float> scale = AnyReals(random, rows);
  std::vector<int64_t> ids(count);
  for (int64_t& id : ids) id = Between(random, -rows, rows - 1);
  std::vector<float> y(count * channels);
  const rebnn_embedding_io io = {rows, channels, table.data(), scale.data(), count, ids.data(), y.data()};
  CHECK(rebnn_embedding_run(&io) == REBNN_OK, "%s", rebnn_last_error());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = (ids[i] + rows) % rows;
    for (int64_t c = 0; c < channels; ++c) {
      const float expected = scale[row] * signs[row * channels + c];
      CHECK(SameReal(y[i * channels + c], expected), "%lld rows of %lld channels: y[%lld, %lld] is %g, not %g",
            (long long)rows, (long long)channels, (long long)i, (long long)c, y[i * channels + c], expected);
    }
  }
}

void Rows() {
  Random random(2);
  for (int64_t channels : {1, 5, 7, 8, 9, 16, 31, 64, 100, 768}) {
    for (int64_t rows : {1, 2, 37}) CheckRows(rows, channels, channels % 4 * 11, random);
  }
}

void Says(rebnn_status status, const char* words) {
  CHECK(status != REBNN_OK, "accepted, where '%s' is wrong", words);
  CHECK(std::strstr(rebnn_last_error(), words), "the sentence is '%s', without '%s'", rebnn_last_error(), words);
}

template <class Io>
struct Wrong {
  const char* words;
  void (*change)(Io&);
};

void Arguments() {
  Random random(3);
  const Text text(2, 4, 2, 8, 1, 1, random);
  std::vector<float> y(text.q.size());
  const rebnn_attention_io good = text.Io(y.data());
  size_t bytes = 0;
  CHECK(rebnn_attention_scratch_size(&good, 1, &bytes) == REBNN_OK, "%s", rebnn_last_error());
  const Scratch scratch(bytes);
  const Wrong<rebnn_attention_io> wrong[] = {
      {"batch is -1", [](auto& io) { io.batch = -1; }},
      {"length is 0", [](auto& io) { io.length = 0; }},
      {"length is 16777217", [](auto& io) { io.length = (1 << 24) + 1; }},
      {"heads is 0", [](auto& io) { io.heads = 0; }},
      {"head_size is -8", [](auto& io) { io.head_size = -8; }},
      {"more than memory can hold", [](auto& io) { io.batch = io.heads = 2147483647; }},
      {"q is NULL", [](auto& io) { io.q = nullptr; }},
      {"k is NULL", [](auto& io) { io.k = nullptr; }},
      {"v is NULL", [](auto& io) { io.v = nullptr; }},
      {"y is NULL", [](auto& io) { io.y = nullptr; }},
      {"q is not aligned", [](auto& io) { io.q = reinterpret_cast<const float*>(1); }},
      {"tie is 2", [](auto& io) { io.tie = 2; }},
      {"scratch has", [](auto& io) { io.length = 400; }},
  };
  for (const auto& one : wrong) {
    rebnn_attention_io io = good;
    one.change(io);
    Says(rebnn_attention_run(&io, scratch.get(), bytes, nullptr), one.words);
  }
  Says(rebnn_attention_run(nullptr, scratch.get(), bytes, nullptr), "io is NULL");
  Says(rebnn_attention_run(&good, nullptr, bytes, nullptr), "scratch is NULL");
  Says(rebnn_attention_run(&good, static_cast<char*>(scratch.get()) + 4, bytes, nullptr), "aligned to 64");
  Says(rebnn_attention_scratch_size(&good, 1, nullptr), "NULL");
  // memory is asked for by thread, and never for more of them than there are heads
  size_t two = 0, many = 0;
  CHECK(rebnn_attention_scratch_size(&good, 2, &two) == REBNN_OK && two == 2 * bytes, "two threads take %zu", two);
  CHECK(rebnn_attention_scratch_size(&good, 99, &many) == REBNN_OK && many == 4 * bytes, "99 threads take %zu", many);
  const rebnn_parallel nobody = {nullptr, nullptr, 1};
  Says(rebnn_attention_run(&good, scratch.get(), bytes, &nobody), "no run function");
  rebnn_attention_io none = good;
  none.batch = 0;
  CHECK(rebnn_attention_run(&none, nullptr, 0, nullptr) == REBNN_OK, "%s", rebnn_last_error());

  const uint8_t table[4] = {};
  const float scale[4] = {};
  const int64_t ids[3] = {0, -4, 3};
  std::vector<float> out(24, 5.0f);
  const rebnn_embedding_io rows = {4, 8, table, scale, 3, ids, out.data()};
  const Wrong<rebnn_embedding_io> also[] = {
      {"a table of 0 rows", [](auto& io) { io.rows = 0; }},
      {"rows of 2147483648 channels", [](auto& io) { io.channels = int64_t{1} << 31; }},
      {"count is -1", [](auto& io) { io.count = -1; }},
      {"count is 9223372036854775807", [](auto& io) { io.count = INT64_MAX; }},
      {"table is NULL", [](auto& io) { io.table = nullptr; }},
      {"scale is NULL", [](auto& io) { io.scale = nullptr; }},
      {"ids is NULL", [](auto& io) { io.ids = nullptr; }},
      {"y is NULL", [](auto& io) { io.y = nullptr; }},
      {"scale is not aligned", [](auto& io) { io.scale = reinterpret_cast<const float*>(1); }},
      {"ids is not aligned", [](auto& io) { io.ids = reinterpret_cast<const int64_t*>(4); }},
      {"y is not aligned", [](auto& io) { io.y = reinterpret_cast<float*>(2); }},
      {"id -4 at position 1 is not one of the table's 3 rows", [](auto& io) { io.rows = 3; }},
  };
  for (const auto& one : also) {
    rebnn_embedding_io io = rows;
    one.change(io);
    Says(rebnn_embedding_run(&io), one.words);
  }
  Says(rebnn_embedding_run(nullptr), "io is NULL");
  for (float value : out) CHECK(value == 5.0f, "something was written in spite of an error");
}

// Sizes as hostile files write them: an error with a sentence, or sizes that are not run because they are too large.
void Damaged(Random& random) {
  constexpr int64_t kValues[] = {0, -1, 1, 2147483647, 2147483648, INT64_MAX, INT64_MIN, 1 << 24, (1 << 24) + 1};
  constexpr int64_t kCount = sizeof kValues / sizeof *kValues;
  rebnn_attention_io io = {Between(random, 1, 3), Between(random, 1, 40), 2, Between(random, 1, 70), nullptr,
                           nullptr,               nullptr,                nullptr, 1, nullptr};
  int64_t* fields[] = {&io.batch, &io.length, &io.heads, &io.head_size};
  const int64_t changes = Between(random, 1, 3);
  for (int64_t i = 0; i < changes; ++i) *fields[Between(random, 0, 3)] = kValues[Between(random, 0, kCount - 1)];
  size_t bytes = 0;
  const rebnn_status status = rebnn_attention_scratch_size(&io, 1, &bytes);
  const bool possible = io.batch >= 0 && io.length > 0 && io.heads > 0 && io.head_size > 0;
  CHECK(status != REBNN_OK || possible, "sizes below 1 are accepted");
  CHECK(status == REBNN_OK || *rebnn_last_error(), "an error without a sentence");
  if (io.batch != 0) CHECK(rebnn_attention_run(&io, nullptr, 0, nullptr) != REBNN_OK, "NULL pointers are accepted");
  const int64_t id = kValues[Between(random, 0, kCount - 1)];
  const uint8_t table[6] = {};
  const float scale[6] = {};
  float y[8];
  const rebnn_embedding_io rows = {6, 8, table, scale, 1, &id, y};
  CHECK((rebnn_embedding_run(&rows) == REBNN_OK) == (id >= -6 && id < 6), "id %lld", (long long)id);
}

}  // namespace

int main(int count, char** arguments) {
  const char* isa = RequireIsa();
  const int64_t every = count > 1 ? std::atoll(arguments[1]) : 1;
  const int64_t cases = count > 2 ? std::atoll(arguments[2]) : 0;
  const int64_t checked = Grid(every);
  Rows();
  Arguments();
  Random random(count > 3 ? std::atoll(arguments[3]) : 1);
  for (int64_t i = 0; i < cases; ++i) {
    Damaged(random);
    CheckText(Text(Between(random, 1, 3), Between(random, 1, 80), Between(random, 1, 4), Between(random, 1, 90),
                   Between(random, 0, 1), Between(random, 0, 3), random),
              i % 7 == 0);
    CheckRows(Between(random, 1, 50), Between(random, 1, 90), Between(random, 0, 20), random);
  }
  std::printf("%s: %" PRId64 " texts and %" PRId64 " random ones, every number is equal\n", isa, checked, cases);
}
