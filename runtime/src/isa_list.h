// Every instruction set: its name, its kernels, whether this processor has it, and whether it is chosen where nothing
// is asked for; the fastest first. Included wherever REBNN_X86_64, REBNN_AARCH64, REBNN_ARM (of 32 bits), REBNN_WASM
// and REBNN_ANY are defined; CMakeLists.txt and tests/run_qemu.sh take the names from these lines.
REBNN_X86_64(avx512, kAvx512, HasAvx512() && Has(kHasAvx512Vpopcntdq), true)
REBNN_X86_64(avx512bw, kAvx512Bw, HasAvx512(), true)
REBNN_X86_64(avx2, kAvx2, HasAvx2(), true)
REBNN_X86_64(ssse3, kSsse3, Has(kHasSsse3), true)
// Both are right everywhere; one is chosen for the slowest core that the process may meet, because a system moves it
// from core to core.
REBNN_AARCH64(neon_a55, kNeonA55, true, HasCoreInOrder())
REBNN_AARCH64(neon, kNeon, true, true)
REBNN_ARM(neon_vfpv4, kNeonVfpv4, HasNeon() && HasVfpv4(), true)
REBNN_ARM(neon, kNeon, HasNeon(), true)
REBNN_WASM(simd128, kSimd128, true, true)
#if !defined(__wasm__)
REBNN_ANY(portable, kPortable, true, true)
#endif
