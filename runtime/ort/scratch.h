// Memory that the layers of all sessions use one after the other, and layers that run at the same time side by side. It
// grows with what a run needs, and shrinks when none has needed it for a while.
#ifndef REBNN_ORT_SCRATCH_H_
#define REBNN_ORT_SCRATCH_H_

#include <cstddef>

namespace rebnn::ort {

// Every kernel holds one of these; when the last one goes, the memory that is kept goes, too.
class ScratchUser {
 public:
  ScratchUser();
  ~ScratchUser();
  ScratchUser(const ScratchUser&) = delete;
  ScratchUser& operator=(const ScratchUser&) = delete;
};

// At least `bytes` bytes, aligned to 64, for one run. Throws std::bad_alloc.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }

 private:
  void* data_;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_SCRATCH_H_
