_base_ = './detection_12e.py'

optim_wrapper = dict(constructor='ReBNNOptimWrapperConstructor')
