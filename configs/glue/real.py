# The full-precision classifier; what it writes to its pretrained/ is the start and the teacher of the other rows.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/datasets/glue.
_base_ = '../_base_/datasets/glue/{{$ENCODER:bert_base}}/{{$TASK:sst2}}.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_{{$TASK:sst2}}'
model = dict(type='rebnn_mm.TextClassifier', encoder=_base_.pretrained, num_labels=_base_.num_labels)
optim_wrapper = _base_.fine_tune_optim_wrapper
train_cfg = _base_.fine_tune
custom_hooks = [dict(type='SavePretrainedHook')]
