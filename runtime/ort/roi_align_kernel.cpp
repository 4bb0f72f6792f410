#include "roi_align_kernel.h"

#include <string>

#include "threads.h"

namespace rebnn::ort {

RoiAlignKernel::RoiAlignKernel(const Operator& op, const ApiTable* table, const KernelInfo* info)
    : Kernel(op, table, info) {
  const int64_t adaptive = 0;
  settings_.bins[0] = node_.Positive(info, "output_height");
  settings_.bins[1] = node_.Positive(info, "output_width");
  settings_.sampling_ratio = node_.Int(info, "sampling_ratio", &adaptive);
  settings_.spatial_scale = node_.Real(info, "spatial_scale");
  const std::string mode = node_.Text(info, "coordinate_transformation_mode", "half_pixel");
  if (mode != "half_pixel" && mode != "output_half_pixel") {
    node_.Fail("the attribute coordinate_transformation_mode must be half_pixel or output_half_pixel.");
  }
  settings_.half_pixel = mode == "half_pixel";
  // What is wrong about these is said when the session is made, not in its first run.
  rebnn_roi_align_io one = settings_;
  size_t bytes = 0;
  one.n = one.h = one.w = one.channels = one.regions = 1;
  Check(rebnn_roi_align_scratch_size(&one, 1, &bytes));
}

void RoiAlignKernel::Run(KernelContext* context) const {
  const Tensor x = Take(context, 0), rois = Take(context, 1), images = Take(context, 2);
  if (x.rank != 4) node_.Fail("X has the shape %s; it must have 4 dimensions.", x.Shape().c_str());
  if (rois.rank != 2 || rois.dims[1] != 4) {
    node_.Fail("rois has the shape %s; it must be [R, 4].", rois.Shape().c_str());
  }
  if (images.rank != 1 || images.dims[0] != rois.dims[0]) {
    node_.Fail("batch_indices has the shape %s; it must be [%lld].", images.Shape().c_str(),
               static_cast<long long>(rois.dims[0]));
  }
  rebnn_roi_align_io io = settings_;
  io.n = x.dims[0];
  io.h = x.dims[1];
  io.w = x.dims[2];
  io.channels = x.dims[3];
  io.regions = rois.dims[0];
  io.x = static_cast<const float*>(x.data);
  io.rois = static_cast<const float*>(rois.data);
  io.batch_indices = static_cast<const int64_t*>(images.data);
  size_t bytes = 0;
  Check(rebnn_roi_align_scratch_size(&io, op_.threads, &bytes));
  Tensor y = x;
  y.dims = {io.regions, io.bins[0], io.bins[1], io.channels};
  io.y = static_cast<float*>(Output(context, 0, y));
  if (!io.y) return;
  const Scratch scratch(bytes);
  Threads threads(node_.api(), context, op_.threads);
  const rebnn_status status = rebnn_roi_align_run(&io, scratch.data(), bytes, threads.parallel());
  node_.Check(threads.status(), "running in parallel");
  Check(status);
}

}  // namespace rebnn::ort
