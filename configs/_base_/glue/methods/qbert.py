# Q-BERT 2-8-8 (Shen et al. 2020): 2-bit weights with a range per group of output neurons; no distillation.
# A config adds encoder, the fine-tuned real-valued classifier, and num_labels.
activation = dict(type='Q8BERTActivation', bits=8)
model = dict(
    type='rebnn_mm.TextClassifier',
    binarize=dict(
        linear=dict(type='BinaryLinear', weight=dict(type='QBERTWeight', bits=2, groups=128), activation=activation),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='QBERTWeight', bits=8, groups=1)),
    ),
    attention=dict(type='BinarySoftmaxAttention', projections=activation, weights=activation),
)
custom_hooks = [dict(type='BinaryHook')]
