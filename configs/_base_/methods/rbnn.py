# RBNN (Lin et al. 2020): filters are rotated towards their signs once per epoch, the estimator sharpens over training.
binary = dict(type='RBNNConv2d')
custom_hooks = [dict(type='BinaryHook')]
normalizes = True
