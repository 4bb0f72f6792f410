_base_ = './atss_r18_rebnn_bccd.py'

# Blood cells: the blocks of the 1-bit ATSS with real weights and real inputs, which are its teacher and start.
model = dict(backbone=dict(conv_cfg=None), bbox_head=dict(conv_cfg=None))
