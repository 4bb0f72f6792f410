# Q-BERT 2-8-8 (Shen et al. 2020): 2-bit weights with a range per group of output neurons; no distillation.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/datasets/glue.
_base_ = '../_base_/datasets/glue/{{$ENCODER:bert_base}}/{{$TASK:sst2}}.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_qbert_{{$TASK:sst2}}'
real = 'work_dirs/{{$ENCODER:bert_base}}_{{$TASK:sst2}}/pretrained'
activation = dict(type='Q8BERTActivation', bits=8)
model = dict(
    type='rebnn_mm.TextClassifier',
    encoder=real,
    num_labels=_base_.num_labels,
    binarize=dict(
        linear=dict(type='BinaryLinear', weight=dict(type='QBERTWeight', bits=2, groups=128), activation=activation),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='QBERTWeight', bits=8, groups=1)),
    ),
    attention=dict(type='SoftmaxAttention', projections=activation, weights=activation),
)
custom_hooks = [dict(type='BinaryHook')]
