/* Prints the scores that a packed classifier gives a grey image, without ONNX Runtime:
 *
 *     cc classify.c -I runtime/include -L LIBRARY -lrebnn -o classify
 *     ./classify rebnn_mm/zoo/cifar10-resnet20.onnx
 */
#include <rebnn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char** arguments) {
  FILE* file = count > 1 ? fopen(arguments[1], "rb") : NULL;
  if (!file) return 1;
  static char data[1 << 24];
  size_t bytes = fread(data, 1, sizeof data, file), scratch_bytes;
  fclose(file);
  rebnn_model* model;
  int64_t channels, classes;
  if (rebnn_model_load(data, bytes, 32, 32, &model) != REBNN_OK) {
    fprintf(stderr, "%s\n", rebnn_last_error());
    return 1;
  }
  rebnn_model_sizes(model, &channels, &classes, &scratch_bytes);
  float* image = calloc((size_t)channels * 32 * 32, sizeof *image);
  float* scores = calloc((size_t)classes, sizeof *scores);
  void* scratch = aligned_alloc(64, (scratch_bytes + 63) / 64 * 64);
  rebnn_model_run(model, image, scores, scratch, scratch_bytes);
  for (int i = 0; i < classes; ++i) printf("%.2f ", scores[i]);
  printf("\n");
  rebnn_model_free(model);
  return 0;
}
