# BiT, first step (Liu et al. 2022): binary weights and 2-bit inputs; the result is start and teacher of bit.py.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/datasets/glue.
_base_ = './bit.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_bit_w1a2_{{$TASK:sst2}}'
teacher = 'work_dirs/{{$ENCODER:bert_base}}_{{$TASK:sst2}}/pretrained'
two_bits = dict(bits=2)
model = dict(
    encoder=teacher,
    teacher=teacher,
    binarize=dict(linear=dict(activation=two_bits), overrides={'layer.*.output.dense': dict(activation=two_bits)}),
    attention=dict(projections=two_bits, weights=two_bits),
)
custom_hooks = [dict(type='BinaryHook'), dict(type='SavePretrainedHook')]
