// The instruction sets compiled into this library and the choice between them.
#ifndef REBNN_SRC_ISA_H_
#define REBNN_SRC_ISA_H_

#include "conv.h"

namespace rebnn {

extern const Kernels kPortable;
#if defined(__x86_64__)
extern const Kernels kSsse3;
extern const Kernels kAvx2;
extern const Kernels kAvx512Bw;
extern const Kernels kAvx512;
#elif defined(__aarch64__)
extern const Kernels kNeon;
extern const Kernels kNeonA55;
#endif

// The kernels to use in this process. NULL, with the reason as the last error, if REBNN_ISA names some that cannot run
// here.
const Kernels* ChosenKernels();

}  // namespace rebnn

#endif  // REBNN_SRC_ISA_H_
