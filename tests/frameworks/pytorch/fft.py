# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms by cuFFT."""

import torch
from subject import check, close, main


@check
def one_dimension():
    x = torch.randn(16, 4096, dtype=torch.complex64)
    close(torch.fft.fft(x.cuda()), torch.fft.fft(x), rtol=1e-3, atol=1e-2)


@check
def there_and_back():
    x = torch.randn(8, 1000)
    close(torch.fft.irfft(torch.fft.rfft(x.cuda()), 1000), x, rtol=1e-3, atol=1e-4)


@check
def two_and_three_dimensions():
    x = torch.randn(4, 32, 48)
    close(torch.fft.fft2(x.cuda()), torch.fft.fft2(x), rtol=1e-3, atol=1e-2)
    close(torch.fft.fftn(x.cuda()), torch.fft.fftn(x), rtol=1e-3, atol=1e-2)


main()
