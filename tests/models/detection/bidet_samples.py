"""Ground truth for the tests of BiDet's heads."""

import torch
from mmdet.structures import DetDataSample
from mmengine.structures import InstanceData

BOXES = [[4.0, 4.0, 40.0, 44.0], [20.0, 10.0, 60.0, 50.0], [30.0, 30.0, 62.0, 62.0]]


def samples(*labels: list[int], size: int = 64) -> list[DetDataSample]:
    """One image for each list of labels; its boxes are the first of BOXES."""
    made = []
    for image_labels in labels:
        shape = (size, size)
        sample = DetDataSample(metainfo=dict(img_shape=shape, pad_shape=shape, ori_shape=shape))
        count = len(image_labels)
        boxes = torch.tensor(BOXES[:count]).reshape(-1, 4)
        sample.gt_instances = InstanceData(bboxes=boxes, labels=torch.tensor(image_labels, dtype=torch.long))
        sample.ignored_instances = InstanceData(bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long))
        made.append(sample)
    return made
