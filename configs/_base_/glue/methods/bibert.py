# BiBERT 1-1-1 (Qin et al. 2022): centred signs with the row's mean magnitude, Bi-Attention, direction matching.
# A config adds encoder and teacher, the fine-tuned real-valued classifier for both, and num_labels.
model = dict(
    type='rebnn_mm.TaughtTextClassifier',
    binarize=dict(
        linear=dict(type='BinaryLinear', weight='BiBERTWeight', activation=dict(type='BinarySign', shift=None)),
        word_embedding=dict(type='BinaryEmbedding', weight='BiBERTWeight'),
    ),
    attention=dict(type='BinaryAttention'),
    losses=[
        dict(type='BinaryPredictionLoss'),
        dict(type='BinaryDirectionMatchingLoss', mask_padding=True),  # False in the released code
        dict(type='BinaryHiddenStateLoss', form='direction', mask_padding=True),
    ],
    label_weight=0.5,
)
custom_hooks = [dict(type='BinaryHook')]
