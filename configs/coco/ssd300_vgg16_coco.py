_base_ = 'mmdet::ssd/ssd300_coco.py'

# The paper's COCO table, SSD300, full-precision: AP 23.2, AP50 41.2 on minival (the paper's numbers).
# mmdet's own SSD300 and schedule, with pooling and without batch norm: the network that the binary ones restructure.
# The table's size of 105.16 MB is that of 21 classes, so of ../voc/ssd300_vgg16_voc.py; with 81 it is larger.
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
model = dict(bbox_head=dict(type='rebnn_mm.FixedSSDHead'))
