# TernaryBERT 2-2-2 (Zhang et al. 2020): ternary weights and activations, softmax attention, one stage of distillation.
# A config adds encoder and teacher, the fine-tuned real-valued classifier for both, and num_labels.
activation = dict(type='TernaryBERTActivation', bits=2, clip=2.5, over='tensor')
model = dict(
    type='rebnn_mm.TaughtTextClassifier',
    binarize=dict(
        linear=dict(type='BinaryLinear', weight=dict(type='TWNWeight', per='tensor'), activation=activation),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='TWNWeight', per='channel')),
    ),
    attention=dict(type='BinarySoftmaxAttention', projections=activation, weights=activation),
    losses=[
        dict(type='BinaryPredictionLoss'),
        dict(type='BinaryAttentionScoreLoss', mask_padding=True),
        dict(type='BinaryHiddenStateLoss', form='mse', mask_padding=True),
    ],
)
custom_hooks = [dict(type='BinaryHook')]
