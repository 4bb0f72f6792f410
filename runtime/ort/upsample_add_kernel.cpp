#include "upsample_add_kernel.h"

#include "rebnn.h"
#include "threads.h"

namespace rebnn::ort {

void UpsampleAddKernel::Run(KernelContext* context) const {
  const Tensor x = Take(context, 0), added = Take(context, 1);
  if (x.rank != 4) node_.Fail("X has the shape %s; it must have 4 dimensions.", x.Shape().c_str());
  Tensor y = x;
  for (const size_t axis : {1, 2}) {
    // Twice as many must be a number, too; librebnn refuses larger ones in a sentence.
    if (y.dims[axis] <= INT32_MAX) y.dims[axis] *= 2;
  }
  if (added.rank != 4 || added.dims != y.dims) {
    node_.Fail("R has the shape %s; it must be that of X with twice as many rows and columns, %s.",
               added.Shape().c_str(), y.Shape().c_str());
  }
  rebnn_upsample_add_io io = {};
  io.n = x.dims[0];
  io.h = x.dims[1];
  io.w = x.dims[2];
  io.channels = x.dims[3];
  io.x = static_cast<const float*>(x.data);
  io.added = static_cast<const float*>(added.data);
  io.y = static_cast<float*>(Output(context, 0, y));
  if (!io.y) return;
  Threads threads(node_.api(), context, op_.threads);
  const rebnn_status status = rebnn_upsample_add_run(&io, threads.parallel());
  node_.Check(threads.status(), "running in parallel");
  Check(status);
}

}  // namespace rebnn::ort
