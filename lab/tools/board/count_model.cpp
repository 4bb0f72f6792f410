// Runs a model in ONNX Runtime and marks the second run for count_instructions.c.
//
//     count_model libonnxruntime.so librebnn_ort.so|- model.onnx N C H W outputs.f32 maps.txt [image.f32]
//
// One float input of that shape, from a file or the same random numbers in every call of the program, and for a detector
// the image's height and width; one thread, the options of rebnn_mm.deploy. Writes the first output and where the
// libraries lie in memory. The library of operators is left out if its name is "-".
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "marks.h"

namespace {

// What is used of ONNX Runtime's interface; a function's place in its table never changes.
struct Table {
  const void* functions[300];
};

struct Base {
  const Table* (*api)(uint32_t version);
};

template <class Function>
Function* Get(const Table* table, int place) {
  return reinterpret_cast<Function*>(const_cast<void*>(table->functions[place]));
}

[[noreturn]] void Stop(const std::string& what) {
  std::fprintf(stderr, "count_model: %s\n", what.c_str());
  std::exit(1);
}

const Table* api;

void Check(void* status) {
  if (status) Stop(Get<const char*(void*)>(api, 2)(status));  // GetErrorMessage
}

void* Load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) Stop(dlerror());
  return library;
}

template <class Function>
Function* Symbol(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (!symbol) Stop(dlerror());
  return reinterpret_cast<Function*>(symbol);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 10 && argc != 11) Stop("takes nine or ten arguments, see the source");
  const Base* base = Symbol<const Base*()>(Load(argv[1]), "OrtGetApiBase")();
  api = base->api(17);
  void *env = nullptr, *options = nullptr, *session = nullptr, *memory = nullptr, *input = nullptr;
  Check(Get<void*(int, const char*, void**)>(api, 3)(3, "count", &env));              // CreateEnv
  Check(Get<void*(void**)>(api, 10)(&options));                                       // CreateSessionOptions
  const int level = std::string(argv[2]) == "-" ? 99 : 2;                             // all, or extended
  Check(Get<void*(void*, int)>(api, 23)(options, level));                             // SetSessionGraphOptimizationLevel
  Check(Get<void*(void*, int)>(api, 24)(options, 1));                                 // SetIntraOpNumThreads
  if (std::string(argv[2]) != "-") {
    // AddSessionConfigEntry, as rebnn_mm.deploy.loading does
    Check(Get<void*(void*, const char*, const char*)>(api, 130)(
        options, "optimization.disable_specified_optimizers",
        "ConvMulFusion;ConvAddFusion;ConvBNFusion;MatMulBNFusion"));
    Check(Symbol<void*(void*, const Base*)>(Load(argv[2]), "RegisterCustomOps")(options, base));
  }
  Check(Get<void*(void*, const char*, void*, void**)>(api, 7)(env, argv[3], options, &session));  // CreateSession

  int64_t shape[4];
  size_t count = 1;
  for (int i = 0; i < 4; ++i) count *= static_cast<size_t>(shape[i] = std::atoll(argv[4 + i]));
  std::vector<float> values(count);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / (1 << 23) - 1;
  }
  const auto bytes = static_cast<std::streamsize>(count * sizeof(float));
  if (argc == 11 && !std::ifstream(argv[10], std::ios::binary).read(reinterpret_cast<char*>(values.data()), bytes)) {
    Stop("the image has fewer numbers");
  }
  Check(Get<void*(int, int, void**)>(api, 69)(0, 0, &memory));  // CreateCpuMemoryInfo
  Check(Get<void*(void*, void*, size_t, const int64_t*, size_t, int, void**)>(api, 49)(
      memory, values.data(), count * sizeof(float), shape, 4, 1, &input));  // CreateTensorWithDataAsOrtValue
  void* allocator = nullptr;
  size_t inputs = 0;
  char *input_names[2] = {}, *output_name = nullptr;
  Check(Get<void*(void**)>(api, 78)(&allocator));                // GetAllocatorWithDefaultOptions
  Check(Get<void*(void*, size_t*)>(api, 30)(session, &inputs));  // SessionGetInputCount
  if (inputs > 2) Stop("the model has more than two inputs");
  for (size_t i = 0; i < inputs; ++i) {
    Check(Get<void*(void*, size_t, void*, char**)>(api, 36)(session, i, allocator, &input_names[i]));  // SessionGetInputName
  }
  Check(Get<void*(void*, size_t, void*, char**)>(api, 37)(session, 0, allocator, &output_name));  // SessionGetOutputName
  const int64_t pair = 2;
  void* feeds[2] = {input, nullptr};
  Check(Get<void*(void*, void*, size_t, const int64_t*, size_t, int, void**)>(api, 49)(
      memory, shape + 2, 2 * sizeof(int64_t), &pair, 1, 7, &feeds[1]));  // CreateTensorWithDataAsOrtValue

  void* output = nullptr;
  for (int i = 0; i < 2; ++i) {
    output = nullptr;
    if (i == 1) BeginCounting();
    Check(Get<void*(void*, void*, char**, void**, size_t, char**, size_t, void**)>(api, 9)(
        session, nullptr, input_names, feeds, inputs, &output_name, 1, &output));  // Run
    if (i == 1) EndCounting();
  }

  void* info = nullptr;
  size_t size = 0;
  float* data = nullptr;
  Check(Get<void*(void*, void**)>(api, 65)(output, &info));              // GetTensorTypeAndShape
  Check(Get<void*(void*, size_t*)>(api, 64)(info, &size));               // GetTensorShapeElementCount
  Check(Get<void*(void*, void**)>(api, 51)(output, reinterpret_cast<void**>(&data)));  // GetTensorMutableData
  std::ofstream(argv[8], std::ios::binary).write(reinterpret_cast<const char*>(data), size * sizeof(float));
  std::ofstream(argv[9]) << std::ifstream("/proc/self/maps").rdbuf();
  std::fflush(nullptr);
  std::_Exit(0);
}
