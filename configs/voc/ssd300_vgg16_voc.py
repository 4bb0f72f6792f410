_base_ = 'mmdet::pascal_voc/ssd300_voc0712.py'

# SSD300 on VOC, full-precision: mmdet's own. Its parameters are the 105.16 MB of the paper's COCO table.
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
model = dict(bbox_head=dict(type='rebnn_mm.FixedSSDHead'))
