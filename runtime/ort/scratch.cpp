#include "scratch.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>

#include "../src/memory.h"

namespace rebnn::ort {
namespace {

// Every so many runs of a kernel, memory goes that none of them needed: after a large image, or after many threads. All
// kernels of a model are among them, so that one that is run again and again allocates nothing.
constexpr size_t kRuns = 1024;

// Lies before the memory that it describes.
struct alignas(kAlignment) Buffer {
  Buffer* next;
  size_t bytes;
};

// Nothing here has a destructor: at the end of a process a session may outlive the destructors of static objects.
std::mutex mutex;
Buffer* idle = nullptr;
size_t users = 0;
size_t runs = 0, largest = 0;           // since memory was last looked at: how many, and what one needed at most
size_t idle_count = 0, never_used = 0;  // how many are idle, and how many of them always were

// Frees all idle memory but the first `count`, and what has more than `bytes` bytes of these.
void Keep(size_t count, size_t bytes) {
  Buffer** link = &idle;
  while (Buffer* buffer = *link) {
    if (count > 0 && buffer->bytes <= bytes) {
      --count;
      link = &buffer->next;
    } else {
      *link = buffer->next;
      FreeAligned(buffer);
      --idle_count;
    }
  }
}

}  // namespace

ScratchUser::ScratchUser() {
  std::lock_guard<std::mutex> lock(mutex);
  ++users;
}

ScratchUser::~ScratchUser() {
  std::lock_guard<std::mutex> lock(mutex);
  if (--users == 0) Keep(0, 0);
}

Scratch::Scratch(size_t bytes) {
  Buffer* buffer = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    largest = std::max(largest, bytes);
    if (idle) {
      buffer = idle;
      idle = buffer->next;
      --idle_count;
    }
    never_used = std::min(never_used, idle_count);
  }
  // One that is too small is replaced, so that there are never more of them than runs at the same time.
  if (!buffer || buffer->bytes < bytes) {
    FreeAligned(buffer);
    if (bytes > SIZE_MAX - sizeof(Buffer) - kAlignment) throw std::bad_alloc();
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    buffer = static_cast<Buffer*>(AllocateAligned(sizeof(Buffer) + rounded));
    if (!buffer) throw std::bad_alloc();
    buffer->bytes = rounded;
  }
  data_ = buffer + 1;
}

Scratch::~Scratch() {
  Buffer* buffer = static_cast<Buffer*>(data_) - 1;
  std::lock_guard<std::mutex> lock(mutex);
  buffer->next = idle;
  idle = buffer;
  ++idle_count;
  if (++runs < kRuns) return;
  // Twice as much may stay: sizes of images differ a little.
  Keep(idle_count - never_used, 2 * std::max(largest, kAlignment));
  runs = largest = 0;
  never_used = idle_count;
}

}  // namespace rebnn::ort
