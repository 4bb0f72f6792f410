# BinaryBERT 1-1-1, first stage (Bai et al. 2021): ternary weights, the one-bit inputs of the second stage.
# A config adds encoder and teacher, the fine-tuned real-valued classifier for both, and num_labels; what it writes to
# <work_dir>/pretrained starts the second stage, binarybert.py.
activation = dict(type='BinarySign', shift=None)
model = dict(
    type='rebnn_mm.TaughtTextClassifier',
    binarize=dict(
        linear=dict(type='BinaryLinear', weight=dict(type='TWNWeight', per='tensor'), activation=activation),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='TWNWeight', per='channel')),
    ),
    attention=dict(type='BinarySoftmaxAttention', projections=activation, weights='BinaryStep'),
    losses=[
        dict(type='BinaryPredictionLoss'),
        dict(type='BinaryAttentionScoreLoss', mask_padding=True),
        dict(type='BinaryHiddenStateLoss', form='mse', mask_padding=True),
    ],
)
custom_hooks = [dict(type='BinaryHook'), dict(type='BinarySavePretrainedHook')]
