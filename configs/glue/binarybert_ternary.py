# BinaryBERT 1-1-1, first stage (Bai et al. 2021): TernaryBERT with one-bit inputs, those of the second, binarybert.py.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/datasets/glue.
_base_ = './ternarybert.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_binarybert_ternary_{{$TASK:sst2}}'
activation = dict(_delete_=True, type='BinarySign', shift=None)
model = dict(
    binarize=dict(linear=dict(activation=activation)),
    attention=dict(projections=activation, weights='BinaryStep'),
)
custom_hooks = [dict(type='BinaryHook'), dict(type='SavePretrainedHook')]
