// The instruction sets compiled into this library and the choice between them.
#ifndef REBNN_SRC_ISA_H_
#define REBNN_SRC_ISA_H_

#include "conv.h"
#include "image.h"
#include "real.h"

namespace rebnn {

#define REBNN_NOT_HERE(name, kernels, runs, chosen)
#define REBNN_ANY(name, kernels, runs, chosen) extern const Kernels kernels;
#if defined(__x86_64__)
#define REBNN_X86_64 REBNN_ANY
#else
#define REBNN_X86_64 REBNN_NOT_HERE
#endif
#if defined(__aarch64__)
#define REBNN_AARCH64 REBNN_ANY
#else
#define REBNN_AARCH64 REBNN_NOT_HERE
#endif
#if defined(__ARM_PCS_VFP)
#define REBNN_ARM REBNN_ANY
#else
#define REBNN_ARM REBNN_NOT_HERE
#endif
#if defined(__wasm_simd128__)
#define REBNN_WASM REBNN_ANY
#else
#define REBNN_WASM REBNN_NOT_HERE
#endif
#include "isa_list.h"
#undef REBNN_ANY

// The kernels to use in this process. NULL, with the reason as the last error, if REBNN_ISA names some that cannot run
// here.
const Kernels* ChosenKernels();

#if defined(__x86_64__)
// Whether this processor multiplies numbers of 16 bits (AVX512_BF16).
bool HasBf16();
#endif

// Whether it adds up four products of 8 bits at once, and there are kernels for that.
bool HasDotProducts();

}  // namespace rebnn

#endif  // REBNN_SRC_ISA_H_
