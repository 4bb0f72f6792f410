# For schedules that count iterations.
_base_ = './binary.py'

default_hooks = dict(checkpoint=dict(by_epoch=False, interval=20000, max_keep_ckpts=3))
log_processor = dict(by_epoch=False)
