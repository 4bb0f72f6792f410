_base_ = ['../../_base_/glue/minilm/mrpc.py', '../../_base_/glue/methods/binarybert.py']

model = dict(
    encoder='work_dirs/minilm_binarybert_ternary_mrpc/pretrained',
    teacher='work_dirs/minilm_mrpc/pretrained',
    num_labels=_base_.num_labels,
)
