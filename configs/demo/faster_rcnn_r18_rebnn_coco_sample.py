_base_ = '../overfit/faster_rcnn_r18_rebnn_overfit.py'

# `python demo/run_demo.py --data coco`. Validation scores the eight training images, which shows that the detector
# learns; testing scores images it has not seen, from which it cannot be learned: that AP needs all of COCO.
test_dataloader = dict(
    dataset=dict(ann_file='annotations/instances_val2017.json', data_prefix=dict(img='val2017/'), indices=None)
)
train_cfg = dict(val_interval=50)
default_hooks = dict(logger=dict(interval=10, log_metric_by_epoch=False))
randomness = dict(seed=0)
