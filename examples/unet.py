"""What happens to a list that the function fills and empties?

Run it: `python examples/unet.py`. The gallery of the documentation shows its explorer.
"""

import torch
import torch.nn.functional as F
from torch import nn

import dynexplore


def block(before: int, after: int) -> nn.Sequential:
    """A convolution with what belongs to it."""
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())


class UNet(nn.Module):
    """A mask for an image."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = nn.ModuleList([block(3, width), block(width, 2 * width), block(2 * width, 4 * width)])
        self.up = nn.ModuleList([block(6 * width, 2 * width), block(3 * width, width)])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = kept.pop()
        for up in self.up:
            other = kept.pop()
            x = F.interpolate(x, size=other.shape[-2:])
            x = up(torch.cat([x, other], dim=1))
        return torch.sigmoid(self.head(x))


torch.manual_seed(0)
shown = dynexplore.explain(UNet().eval(), torch.randn(1, 3, 32, 32))

if __name__ == "__main__":
    print(shown)
