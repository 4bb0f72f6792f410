// GCC's C++ runtime, which is inside this library, asks the C library from 2.32 on whether the process has one thread,
// to save itself atomic instructions. Answering no, here, is always right, and the library then loads where the C
// library is older.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}
