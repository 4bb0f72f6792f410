_base_ = './faster_rcnn_r18_rebnn_bccd.py'

# Blood cells with Bi-Real Net, from scratch: block and layers of ../faster_rcnn_r18_bireal_coco.py.
custom_hooks = [dict(type='BinaryHook')]
binary = dict(_delete_=True, type='BiRealConv2d')
model = dict(
    backbone=dict(block='bireal', conv_cfg=binary),
    rpn_head=dict(conv_cfg=binary),
    roi_head=dict(shared_head=dict(block='bireal', conv_cfg=binary)),
)
