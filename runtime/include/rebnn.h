/* librebnn: binary convolutions, attention and embeddings on packed bits, and images for them. C ABI, no dependency.
 *
 * Signs, packing and the order of floating-point operations are those of docs/format.md. Every function is safe to
 * call from several threads at once; a rebnn_conv is immutable after its creation. Nothing is allocated while
 * one of them runs. */
#ifndef REBNN_H
#define REBNN_H

#include <stddef.h>
#include <stdint.h>

/* REBNN_EXPORTS is defined while the shared library is compiled, and nowhere else. */
#if !defined(_WIN32)
#define REBNN_API __attribute__((visibility("default")))
#elif defined(REBNN_EXPORTS)
#define REBNN_API __declspec(dllexport)
#else
#define REBNN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define REBNN_ABI_VERSION 4

typedef enum { REBNN_OK = 0, REBNN_INVALID_ARGUMENT = 1, REBNN_OUT_OF_MEMORY = 2 } rebnn_status;

typedef enum { REBNN_NCHW = 0, REBNN_NHWC = 1 } rebnn_layout;

/* A convolution. One output sums in_channels / group * kernel height * kernel width products, at most 2^24, so that
 * the sums are exact as float, too; each other number is below 2^31. A linear layer is a convolution with a kernel, n
 * and h of 1 and its rows as w. */
typedef struct {
  int64_t in_channels; /* of the whole layer */
  int64_t out_channels;
  int64_t group;
  int64_t kernel[2]; /* height, width */
  int64_t stride[2];
  int64_t dilation[2];
  int64_t pad[4];    /* top, left, bottom, right */
  int32_t pad_value; /* -1, 0, +1 */
} rebnn_conv_desc;

typedef struct rebnn_conv rebnn_conv;

/* Runs task(arg, i) for every i < tasks, possibly at the same time, and returns when all are done. */
typedef struct {
  void (*run)(void* pool, size_t tasks, void (*task)(void* arg, size_t i), void* arg);
  void* pool;
  size_t threads; /* how many tasks can run at the same time */
} rebnn_parallel;

/* Input and output of one run. A pointer that is NULL leaves its step out; sizes follow from n, h, w and the
 * description. */
typedef struct {
  int64_t n, h, w; /* of the input */
  /* Exactly one input: real numbers (with a shift per input channel, or NULL) or packed bits [n, h, w,
   * ceil(in_channels / 8)], in which the bits after the last channel may hold anything. */
  const float* x;
  const float* shift;
  const uint8_t* x_bits;
  int32_t layout; /* a rebnn_layout: that of x, residual and y */
  /* The integer sums, [n, oh, ow, out_channels] whatever the layout. */
  int32_t* sums;
  /* y = ((a * scale) * mul + add) + residual; + pre; prelu by slope; + post. One value per output channel, the
   * residual one per output. Then clip, below. y may be the residual's memory; otherwise no output may overlap
   * anything. */
  const float* scale;
  const float* mul;
  const float* add;
  const float* residual;
  const float* pre;
  const float* slope;
  const float* post;
  float* y;
  /* Bits of y + next_shift, [n, oh, ow, ceil(out_channels / 8)]. */
  const float* next_shift;
  uint8_t* y_bits;
  /* Two numbers, the first negative, the second positive: y becomes one of them where it is beyond it, the last step
   * before the outputs. NaN stays. */
  const float* clip;
} rebnn_conv_io;

REBNN_API uint32_t rebnn_abi_version(void);

/* The kernels in use, one of rebnn_isas(). The environment variable REBNN_ISA chooses others, for tests; NULL if it
 * names some that are unknown or that this processor lacks (rebnn_last_error says so). */
REBNN_API const char* rebnn_isa(void);

/* All that this build has, the fastest first, with ", " in between, whether or not this processor has them. */
REBNN_API const char* rebnn_isas(void);

/* What went wrong in this thread's last call that did not return REBNN_OK. One sentence. */
REBNN_API const char* rebnn_last_error(void);

/* Checks the description and packed weights of `bytes` bytes, uint8 [out, kh, kw, ceil(in / group / 8)], and arranges
 * them for this processor. */
REBNN_API rebnn_status rebnn_conv_create(const rebnn_conv_desc* desc, const uint8_t* weights, size_t bytes,
                                         rebnn_conv** conv);
REBNN_API void rebnn_conv_destroy(rebnn_conv* conv);

/* Height and width of the output; an error if the kernel does not fit. */
REBNN_API rebnn_status rebnn_conv_output_size(const rebnn_conv* conv, int64_t h, int64_t w, int64_t* out_h,
                                              int64_t* out_w);

/* Bytes of scratch memory that a run with these sizes and so many threads needs at most. Packed input of exactly
 * 64 channels is read where it lies and needs none; others may. */
REBNN_API rebnn_status rebnn_conv_scratch_size(const rebnn_conv* conv, int64_t n, int64_t h, int64_t w, size_t threads,
                                               size_t* bytes);

/* Runs; `parallel` NULL for one thread. Scratch is aligned to 64 bytes and belongs to this run alone. */
REBNN_API rebnn_status rebnn_conv_run(const rebnn_conv* conv, const rebnn_conv_io* io, void* scratch,
                                      size_t scratch_bytes, const rebnn_parallel* parallel);

/* The stem of a residual network: a full-precision 7x7 convolution of stride 2 and pad 3, a factor and a term per
 * output channel, and max pooling 3x3 of stride 2 and pad 1. In float32, but not in a fixed order: results of two
 * instruction sets differ by a few units in the last place, and NaN need not survive the pooling. */
typedef struct rebnn_stem rebnn_stem;

typedef struct {
  int64_t n, h, w;  /* of the input */
  const float* x;   /* [n, in_channels, h, w] */
  int32_t layout;   /* a rebnn_layout: that of y */
  float* y;         /* may not overlap x */
} rebnn_stem_io;

/* At most 4 input channels; weights float [out, in, 7, 7], mul and add [out] or NULL. */
REBNN_API rebnn_status rebnn_stem_create(int64_t in_channels, int64_t out_channels, const float* weights,
                                         const float* mul, const float* add, rebnn_stem** stem);
/* The same with products of 16-bit numbers where the processor has them: of float16 on AArch64 (inputs beyond 300 may
 * then become infinite), of bfloat16 with AVX-512. */
REBNN_API rebnn_status rebnn_stem_create_half(int64_t in_channels, int64_t out_channels, const float* weights,
                                              const float* mul, const float* add, rebnn_stem** stem);
/* Of what its products are in this process: "float16", "bfloat16" or "float32". NULL as from rebnn_isa. */
REBNN_API const char* rebnn_stem_half_type(void);
REBNN_API void rebnn_stem_destroy(rebnn_stem* stem);
REBNN_API rebnn_status rebnn_stem_output_size(const rebnn_stem* stem, int64_t h, int64_t w, int64_t* out_h,
                                              int64_t* out_w);
/* As for a convolution. */
REBNN_API rebnn_status rebnn_stem_scratch_size(const rebnn_stem* stem, int64_t n, int64_t h, int64_t w, size_t threads,
                                               size_t* bytes);
REBNN_API rebnn_status rebnn_stem_run(const rebnn_stem* stem, const rebnn_stem_io* io, void* scratch,
                                      size_t scratch_bytes, const rebnn_parallel* parallel);

/* The mean of each square of 2x2 pixels, stride 2, channels last; docs/operators.md, RealAveragePool. */
typedef struct {
  int64_t n, h, w, channels;
  int32_t ceil_mode; /* 1: an odd last row or column makes squares of its own; 0: it is left out */
  const float* x;    /* [n, h, w, channels] */
  float* y;          /* [n, oh, ow, channels]; may not overlap x */
} rebnn_average_pool_io;

/* `parallel` as for rebnn_conv_run; no scratch memory is needed. */
REBNN_API rebnn_status rebnn_average_pool_run(const rebnn_average_pool_io* io, const rebnn_parallel* parallel);

/* Each pixel twice along both sides (nearest upsampling), and an addition, channels last; docs/operators.md,
 * RealUpsampleAdd. */
typedef struct {
  int64_t n, h, w, channels; /* of x */
  const float* x;            /* [n, h, w, channels] */
  const float* added;        /* [n, 2 * h, 2 * w, channels] */
  float* y;                  /* the same; may not overlap anything */
} rebnn_upsample_add_io;

/* `parallel` as for rebnn_conv_run; no scratch memory is needed. */
REBNN_API rebnn_status rebnn_upsample_add_run(const rebnn_upsample_add_io* io, const rebnn_parallel* parallel);

/* The features of regions of a map, channels last; docs/operators.md, RealRoiAlign. In float32, up to its rounding. */
typedef struct {
  int64_t n, h, w, channels;
  int64_t regions;
  int64_t bins[2];              /* of the output: height, width, at most 65536 */
  int64_t sampling_ratio;       /* samples of a bin along each axis, at most 1024; 0: as many as it has pixels there */
  float spatial_scale;          /* from the coordinates of rois to those of the map */
  int32_t half_pixel;           /* 1: shifted by half a pixel; 0: not, and regions have a pixel at least */
  const float* x;               /* [n, h, w, channels] */
  const float* rois;            /* [regions, 4]: left, top, right, bottom, at most 2^20 pixels of the map apart */
  const int64_t* batch_indices; /* [regions], from 0 to n - 1 */
  float* y;                     /* [regions, bins, channels]; may not overlap anything */
} rebnn_roi_align_io;

/* Bytes of scratch memory that a run with these sizes and so many threads needs; pointers are not looked at. */
REBNN_API rebnn_status rebnn_roi_align_scratch_size(const rebnn_roi_align_io* io, size_t threads, size_t* bytes);

/* Runs, whoever is free taking the next region; `parallel` and scratch as for rebnn_conv_run. */
REBNN_API rebnn_status rebnn_roi_align_run(const rebnn_roi_align_io* io, void* scratch, size_t scratch_bytes,
                                           const rebnn_parallel* parallel);

/* Attention of signs, docs/operators.md, BinaryAttention. Real tensors are [batch, length, heads, head_size]; length
 * and head_size are at most 2^24. y may not overlap anything. */
typedef struct {
  int64_t batch, length, heads, head_size;
  const float *q, *k, *v;
  const uint8_t* mask; /* [batch, length], 0 where nobody may attend to; NULL for nowhere */
  int32_t tie;         /* 1: a score of 0 attends; 0: it does not */
  float* y;
} rebnn_attention_io;

/* Bytes of scratch memory that a run with these sizes and so many threads needs; pointers are not looked at. */
REBNN_API rebnn_status rebnn_attention_scratch_size(const rebnn_attention_io* io, size_t threads, size_t* bytes);

/* Runs, the heads of all texts in as many tasks as there are threads; `parallel` and scratch as for rebnn_conv_run. */
REBNN_API rebnn_status rebnn_attention_run(const rebnn_attention_io* io, void* scratch, size_t scratch_bytes,
                                           const rebnn_parallel* parallel);

/* Rows of a packed table as real numbers: y[i] = scale[ids[i]] times the signs of row ids[i]. */
typedef struct {
  int64_t rows, channels;
  const uint8_t* table; /* [rows, ceil(channels / 8)] */
  const float* scale;   /* [rows] */
  int64_t count;
  const int64_t* ids; /* [count], from -rows to rows - 1; negative ones count from the end */
  float* y;           /* [count, channels] */
} rebnn_embedding_io;

REBNN_API rebnn_status rebnn_embedding_run(const rebnn_embedding_io* io);

/* An image as a network takes it, docs/format.md, rebnn.preprocess: resized, cropped, normalised and padded, with the
 * numbers that docs/format.md defines, to the last bit. */
typedef struct {
  int64_t height, width;
  int64_t row_bytes;    /* from one row to the next; at least 3 * width */
  const uint8_t* image; /* [height, width, 3] */
  int64_t resized[2];   /* height, width */
  int64_t crop[4];      /* of that: top, left, height, width */
  int64_t size[2];      /* of y: height, width */
  int64_t offset[2];    /* where the crop lies in y: top, left */
  int32_t reverse;      /* 1: the last channel first */
  const float* mean;    /* [3], in the order of y; both or NULL */
  const float* std;
  const float* fill;    /* [3], in the order of y; what is around the crop */
  float* y;             /* [3, size]; may not overlap anything */
} rebnn_image_io;

/* Bytes of scratch memory for any call with this description; pointers are not looked at. */
REBNN_API rebnn_status rebnn_image_scratch_size(const rebnn_image_io* io, size_t* bytes);

/* Makes `count` rows of y from row `first` on, of all channels: several threads may each make some, with scratch memory
 * of their own, aligned to 64 bytes. */
REBNN_API rebnn_status rebnn_image_rows(const rebnn_image_io* io, int64_t first, int64_t count, void* scratch,
                                        size_t scratch_bytes);

/* A packed classifier or detector, docs/format.md, from file to scores or boxes. Only operators that rebnn
 * export writes for these are known; a file with others is refused. A model does not change after it was loaded. */
typedef struct rebnn_model rebnn_model;

/* Checks a file of `bytes` bytes, which may go afterwards, and plans runs of one image of h x w pixels. A file is
 * refused whose constants take more than 16 bytes for each of its own and of the image's, and 16 MiB. */
REBNN_API rebnn_status rebnn_model_load(const void* file, size_t bytes, int64_t h, int64_t w, rebnn_model** model);
REBNN_API void rebnn_model_free(rebnn_model* model);
/* Channels of the image, classes (0 where the file of a detector names none), and bytes of scratch memory that a run
 * needs: any number, of a file that nobody vouches for. */
REBNN_API rebnn_status rebnn_model_sizes(const rebnn_model* model, int64_t* channels, int64_t* classes,
                                         size_t* scratch_bytes);
/* Runs on one thread: image [channels, h, w], normalised as the file's rebnn.preprocess says; scores [classes].
 * Scratch is aligned to 64 bytes and belongs to this run alone. */
REBNN_API rebnn_status rebnn_model_run(const rebnn_model* model, const float* image, float* scores, void* scratch,
                                       size_t scratch_bytes);

/* The most boxes that a run of a detector can find; 0 for a classifier. */
REBNN_API rebnn_status rebnn_model_most_detections(const rebnn_model* model, int64_t* most);
/* Runs a detector on one thread. valid_size is the height and width of what is not padding in the image. boxes [most,
 * 4] get left, top, right and bottom in pixels of the image, scores and labels [most] those of each box, best first,
 * and `count` their number. */
REBNN_API rebnn_status rebnn_model_detect(const rebnn_model* model, const float* image, const int64_t* valid_size,
                                          float* boxes, float* scores, int64_t* labels, int64_t* count, void* scratch,
                                          size_t scratch_bytes);

/* What training does with latent weights [channels, weights], in one pass through memory each. Pointers are not
 * checked; no output may overlap anything. NaN counts as positive, is beyond 1, and goes through sums and maxima. */

/* y = -1 where x < 0, else +1. */
REBNN_API void rebnn_signs(const float* x, int64_t count, float* y);

/* Weights [channels, in_channels, taps] of rebnn_conv_create as bits [channels, taps, ceil(in_channels / 8)]. */
REBNN_API void rebnn_pack_weights(const float* weights, int64_t channels, int64_t in_channels, int64_t taps,
                                  uint8_t* bits);

/* Of alpha * sign(latent), given its gradient: that of the latent weight, alpha * grad (with a mask, 0 beyond 1), and
 * that of alpha, the sum of grad * sign(latent). */
REBNN_API void rebnn_scaled_sign_gradient(int64_t channels, int64_t weights, const float* latent, const float* alpha,
                                          const float* grad, int32_t mask, float* grad_latent, float* grad_alpha);

/* Of each channel: where it is negative, the largest |grad|, the norm of grad, the sum of |latent| and the norm of
 * latent - alpha * sign(latent). */
REBNN_API void rebnn_measure_channels(int64_t channels, int64_t weights, const float* latent, const float* alpha,
                                      const float* grad, uint8_t* negative, float* largest, float* task,
                                      float* magnitude, float* distance);

/* grad (with a mask, 0 beyond 1) += gamma * (latent - alpha * sign(latent)). */
REBNN_API void rebnn_add_reconstruction(int64_t channels, int64_t weights, const float* latent, const float* alpha,
                                        const float* gamma, int32_t mask, float* grad);

/* Which signs differ from `negative` of an earlier step, how many in each channel, and how many of these had changed
 * the step before, too (`changed_before`, NULL: none). */
REBNN_API void rebnn_count_flips(int64_t channels, int64_t weights, const float* latent, const uint8_t* negative,
                                 const uint8_t* changed_before, uint8_t* changed, int32_t* flips,
                                 int32_t* sequential_flips);

#ifdef __cplusplus
}
#endif

#endif
