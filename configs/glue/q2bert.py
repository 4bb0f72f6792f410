# Q2BERT 2-8-8: Q8BERT (Zafrir et al. 2019) with 2-bit weights, one range per matrix; no distillation. Else as Q-BERT.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/datasets/glue.
_base_ = './qbert.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_q2bert_{{$TASK:sst2}}'
model = dict(
    binarize=dict(
        linear=dict(weight=dict(_delete_=True, type='Q8BERTWeight', bits=2)),
        word_embedding=dict(weight=dict(_delete_=True, type='Q8BERTWeight', bits=8)),
    ),
)
