_base_ = ['../../_base_/glue/minilm/cola.py', '../../_base_/glue/methods/binarybert.py']

model = dict(
    encoder='work_dirs/minilm_binarybert_ternary_cola/pretrained',
    teacher='work_dirs/minilm_cola/pretrained',
    num_labels=_base_.num_labels,
)
