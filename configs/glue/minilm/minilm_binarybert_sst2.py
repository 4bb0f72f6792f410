_base_ = ['../../_base_/glue/minilm/sst2.py', '../../_base_/glue/methods/binarybert.py']

model = dict(
    encoder='work_dirs/minilm_binarybert_ternary_sst2/pretrained',
    teacher='work_dirs/minilm_sst2/pretrained',
    num_labels=_base_.num_labels,
)
