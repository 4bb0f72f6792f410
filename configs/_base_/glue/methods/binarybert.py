# BinaryBERT 1-1-1, second stage (Bai et al. 2021): each ternary layer of the first is split into two binary ones.
# A config adds encoder (what binarybert_ternary.py has written to its <work_dir>/pretrained), teacher (the fine-tuned
# real-valued classifier) and num_labels.
activation = dict(type='BinarySign', shift=None)
model = dict(
    type='rebnn_mm.TaughtTextClassifier',
    binarize=dict(
        linear=dict(type='BinaryLinear', weight=dict(type='BWNWeight', per='tensor'), activation=activation),
        word_embedding=dict(type='BinaryEmbedding', weight=dict(type='BWNWeight', per='channel')),
        split=True,
    ),
    attention=dict(type='BinarySoftmaxAttention', projections=activation, weights='BinaryStep'),
    losses=[dict(type='BinaryPredictionLoss')],
)
custom_hooks = [dict(type='BinaryHook')]
