# ReBNN 1-1-1: BiBERT's set-up with learned scaling factors and the resilient gradient in every linear layer.
# For a task (TASK=rte) and an encoder (ENCODER=minilm): configs/_base_/datasets/glue.
_base_ = './bibert.py'

work_dir = 'work_dirs/{{$ENCODER:bert_base}}_rebnn_{{$TASK:sst2}}'
model = dict(
    binarize=dict(
        linear=dict(
            _delete_=True,
            type='ReBNNLinear',
            center='row',  # as in BiBERT, whose set-up the paper takes over; None is the paper's text taken alone
            gamma='adaptive',
            gamma_bounds=(1e-5, 2e-4),
            flip_window=1,
            activation=dict(type='BinarySign', shift=None),
        )
    )
)
custom_hooks = [dict(type='ReBNNHook')]
