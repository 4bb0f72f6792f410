/* Prints what a packed detector of blood cells finds in an image, without ONNX Runtime:
 *
 *     cc detect.c -I runtime/include -L LIBRARY -lrebnn -o detect
 *     ./detect rebnn_mm/zoo/blood-cells-nano.onnx cells.ppm
 */
#include <rebnn.h>
#include <stdio.h>
#include <stdlib.h>

static void check(rebnn_status status) {
  if (status == REBNN_OK) return;
  fprintf(stderr, "%s\n", rebnn_last_error());
  exit(1);
}

static void* memory(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

int main(int count, char** arguments) {
  FILE* file = count > 2 ? fopen(arguments[1], "rb") : NULL;
  FILE* photo = count > 2 ? fopen(arguments[2], "rb") : NULL;
  static char data[1 << 24];
  static uint8_t pixels[640 * 480 * 3];
  if (!file || !photo || fscanf(photo, "P6 640 480 255%*c") != 0) return 1;
  const size_t bytes = fread(data, 1, sizeof data, file);
  if (fread(pixels, 1, sizeof pixels, photo) != sizeof pixels) return 1;

  /* The steps of the file's rebnn.preprocess: 320 x 240, in the order BGR, padded to multiples of 32. */
  enum { HEIGHT = 256, WIDTH = 320 };
  const float mean[] = {103.53f, 116.28f, 123.675f}, std[] = {57.375f, 57.12f, 58.395f}, fill[] = {0, 0, 0};
  const int64_t valid_size[] = {240, 320};
  static float image[3 * HEIGHT * WIDTH];
  const rebnn_image_io io = {480, 640, 640 * 3, pixels, {240, 320}, {0, 0, 240, 320}, {HEIGHT, WIDTH},
                             {0, 0}, 1, mean, std, fill, image};
  size_t scratch_bytes;
  check(rebnn_image_scratch_size(&io, &scratch_bytes));
  void* scratch = memory(scratch_bytes);
  check(rebnn_image_rows(&io, 0, HEIGHT, scratch, scratch_bytes));

  rebnn_model* model;
  int64_t channels, classes, most, found;
  check(rebnn_model_load(data, bytes, HEIGHT, WIDTH, &model));
  check(rebnn_model_sizes(model, &channels, &classes, &scratch_bytes));
  check(rebnn_model_most_detections(model, &most));
  float *boxes = memory(most * 4 * sizeof *boxes), *scores = memory(most * sizeof *scores);
  int64_t* labels = memory(most * sizeof *labels);
  scratch = memory(scratch_bytes);
  check(rebnn_model_detect(model, image, valid_size, boxes, scores, labels, &found, scratch, scratch_bytes));
  for (int64_t i = 0; i < found && scores[i] >= 0.5f; ++i, boxes += 4) {
    printf("%d %.2f", (int)labels[i], scores[i]);
    for (int side = 0; side < 4; ++side) printf(" %.0f", 2 * boxes[side]); /* in the photo */
    printf("\n");
  }
  rebnn_model_free(model);
  return 0;
}
