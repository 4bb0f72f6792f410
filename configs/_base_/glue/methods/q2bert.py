# Q2BERT 2-8-8: Q8BERT (Zafrir et al. 2019) with 2-bit weights, one range per matrix; no distillation.
# A config adds encoder, the fine-tuned real-valued classifier, and num_labels.
activation = dict(type='Q8BERTActivation', bits=8)
model = dict(
    type='rebnn_mm.TextClassifier',
    binarize=dict(
        linear=dict(type='BinaryLinear', weight=dict(type='Q8BERTWeight', bits=2), activation=activation),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='Q8BERTWeight', bits=8)),
    ),
    attention=dict(type='BinarySoftmaxAttention', projections=activation, weights=activation),
)
custom_hooks = [dict(type='BinaryHook')]
