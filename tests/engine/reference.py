"""The five lines of the method written out in float64, without any of the package's code."""

import torch


class Reference:
    """Trains a list of weights with plain gradient descent and the resilient gradient.

    Args:
        weights: latent weights, float64.
        loss: takes the binarized weights and one batch, gives the loss.
    """

    def __init__(
        self, weights, loss, lr, gamma='adaptive', bounds=(1e-5, 2e-4), window=1, center=None, max_share=0.01
    ):
        self.w = [w.detach().clone().double() for w in weights]
        self.alpha = [w.abs().flatten(1).mean(1) for w in self.w]
        first = gamma if not isinstance(gamma, str) else (bounds[0] if bounds else 0.0)
        self.gamma = [torch.full_like(a, first) for a in self.alpha]
        self.loss, self.lr, self.mode, self.bounds, self.window = loss, lr, gamma, bounds, window
        self.steps, self.center = 0, center
        self.max_share = max_share if isinstance(gamma, str) else None
        self.window_start = [self._b(self._c(w)) for w in self.w]

    @staticmethod
    def _b(w):
        return torch.where(w < 0, -1.0, 1.0).double()

    def _c(self, v):
        """v less the mean of each channel, if weights are centred: the projection has the same form for gradients."""
        return v - self._wide(v.flatten(1).mean(1), v) if self.center else v

    @staticmethod
    def _wide(v, like):
        return v.view(-1, *[1] * (like.dim() - 1))

    def step(self, batch):
        pairs = zip(self.w, self.alpha, strict=True)
        w_hat = [(self._wide(a, w) * self._b(self._c(w))).requires_grad_() for w, a in pairs]
        grads = torch.autograd.grad(self.loss(w_hat, batch), w_hat)
        self.steps += 1
        for i, g in enumerate(grads):
            w, a, gamma = (
                self._c(self.w[i]),
                self._wide(self.alpha[i], self.w[i]),
                self._wide(self.gamma[i], self.w[i]),
            )
            b = self._b(w)
            if self.max_share is not None:
                task, distance = ((v**2).flatten(1).sum(1).sqrt() for v in (a * g, w - a * b))
                gamma = torch.minimum(gamma, self._wide(self.max_share * task / distance, w))
            grad_w = a * g * (w.abs() <= 1) + gamma * (w - a * b)
            grad_a = (g * b).flatten(1).sum(1) - (gamma * (w - a * b) * b).flatten(1).sum(1)
            self.w[i] = self.w[i] - self.lr * self._c(grad_w)
            least = 0.25 * w.abs().flatten(1).mean(1)
            self.alpha[i] = (self.alpha[i] - self.lr * grad_a).clamp(min=1e-6).maximum(least)
            if isinstance(self.mode, str) and self.steps % self.window == 0:
                start = b if self.window == 1 else self.window_start[i]
                share = (start != self._b(self._c(self.w[i]))).double().flatten(1).mean(1)
                new = g.abs().flatten(1).amax(1) * (share if self.mode == 'adaptive' else 1)
                self.gamma[i] = new.clamp(*self.bounds) if self.bounds else new
                self.window_start[i] = self._b(self._c(self.w[i]))
