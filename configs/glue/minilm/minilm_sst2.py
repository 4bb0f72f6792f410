_base_ = ['../../_base_/glue/minilm.py', '../../_base_/glue/minilm/sst2.py']

# Real-valued. What it writes to work_dirs/minilm_sst2/pretrained starts and teaches every other row.
model = dict(num_labels=_base_.num_labels)
optim_wrapper = dict(optimizer=dict(lr=5e-5))
train_cfg = _base_.fine_tune
custom_hooks = [dict(type='BinarySavePretrainedHook')]
