_base_ = './faster_rcnn_r18_rebnn_bccd.py'

# Blood cells with XNOR-Net, from scratch: block and layers of ../faster_rcnn_r18_xnor_coco.py.
custom_hooks = [dict(type='BinaryHook')]
binary = dict(_delete_=True, type='XNORConv2d')
model = dict(
    backbone=dict(block='preact', conv_cfg=binary),
    rpn_head=dict(conv_cfg=binary),
    roi_head=dict(shared_head=dict(block='preact', conv_cfg=binary)),
)
