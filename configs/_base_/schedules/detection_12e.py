# SGD 0.008 at batch 8 is the paper's; 12 epochs with steps at 8 and 11 and the warm-up are mmdet's 1x schedule.
_base_ = 'mmdet::_base_/schedules/schedule_1x.py'

optim_wrapper = dict(optimizer=dict(lr=0.008))
auto_scale_lr = dict(base_batch_size=8)
