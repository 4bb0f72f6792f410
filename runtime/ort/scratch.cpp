#include "scratch.h"

#include <cstdint>
#include <mutex>
#include <new>

#include "../src/memory.h"

namespace rebnn::ort {
namespace {

// Stands in front of the memory that it describes.
struct alignas(kAlignment) Buffer {
  Buffer* next;
  size_t bytes;
};

// Nothing here has a destructor: at the end of a process a session may outlive the destructors of static objects.
std::mutex mutex;
Buffer* idle = nullptr;
size_t users = 0;

}  // namespace

ScratchUser::ScratchUser() {
  std::lock_guard<std::mutex> lock(mutex);
  ++users;
}

ScratchUser::~ScratchUser() {
  std::lock_guard<std::mutex> lock(mutex);
  if (--users) return;
  while (idle) {
    Buffer* next = idle->next;
    FreeAligned(idle);
    idle = next;
  }
}

Scratch::Scratch(size_t bytes) {
  Buffer* buffer = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (idle) {
      buffer = idle;
      idle = buffer->next;
    }
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
}

}  // namespace rebnn::ort
