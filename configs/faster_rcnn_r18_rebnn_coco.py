# The command that rebnn_mm was asked for, tools/train.py configs/faster_rcnn_r18_rebnn_coco.py; all others name coco/.
_base_ = './coco/faster_rcnn_r18_rebnn_coco.py'
