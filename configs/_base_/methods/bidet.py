# BiDet (Wang et al. 2020), the (SC) form: scale mean(|w|) with its gradient, borders padded with -1.
binary = dict(type='BiDetConv2d')
custom_hooks = [dict(type='BinaryHook')]
