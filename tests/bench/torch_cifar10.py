#!/usr/bin/env python3
"""ResNet-20 on CIFAR-10 from JPEG files in PyTorch: what examples/cifar10_resnet.c is compared with.

    python3 tests/bench/torch_cifar10.py <folder> [epochs] [workers]

The same files, network, augmentation, optimizer and schedule; one JSON line an epoch: training cost, error on the test images and
seconds. Needs torch and torchvision."""
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision import datasets, transforms

BATCH = 128


class Block(nn.Module):
    """Pre-activation; a block that widens pools its shortcut and pads it with channels of zeros on both sides."""

    def __init__(self, channels, first, widens):
        super().__init__()
        out = 2 * channels if widens else channels
        self.bn = None if first else nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, out, 3, 2 if widens else 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.pad = channels // 2 if widens else 0

    def forward(self, x):
        y = x if self.bn is None else F.relu(self.bn(x))
        y = self.conv2(F.relu(self.bn1(self.conv1(y))))
        if self.pad:
            x = F.pad(F.avg_pool2d(x, 2), (0, 0, 0, 0, self.pad, self.pad))
        return x + y


class ResNet(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.conv0 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn0 = nn.BatchNorm2d(16)
        widths = [(16 << max(stage - 1, 0)) if k == 0 else 16 << stage for stage in range(3) for k in range(n)]
        self.blocks = nn.Sequential(*[Block(w, i == 0, i in (n, 2 * n)) for i, w in enumerate(widths)])
        self.bnlast = nn.BatchNorm2d(64)
        self.linear = nn.Linear(64, 10)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        nn.init.kaiming_normal_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn0(self.conv0(x))))
        return self.linear(F.relu(self.bnlast(x)).mean((2, 3)))


def main():
    folder = sys.argv[1]
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    torch.manual_seed(1)
    scale = transforms.Lambda(lambda t: t * (255 / 64) - 2)
    moved = transforms.Compose([transforms.Pad(4), transforms.RandomCrop(32), transforms.RandomHorizontalFlip(), transforms.ToTensor(), scale])
    plain = transforms.Compose([transforms.ToTensor(), scale])
    train = torch.utils.data.DataLoader(datasets.ImageFolder(folder + "/train", moved), BATCH, shuffle=True, drop_last=True, num_workers=workers)
    test = torch.utils.data.DataLoader(datasets.ImageFolder(folder + "/test", plain), BATCH, num_workers=workers)
    model = ResNet().to(memory_format=torch.channels_last)
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.SGD([{"params": weights, "weight_decay": 2e-4}, {"params": others, "weight_decay": 0}], lr=0.1, momentum=0.9)
    for epoch in range(1, epochs + 1):
        rate = 0.1 if epoch <= epochs // 2 else 0.01 if epoch <= epochs * 3 // 4 + 1 else 0.001
        for group in optimizer.param_groups:
            group["lr"] = rate
        began, cost = time.time(), 0.0
        model.train()
        for x, label in train:
            loss = F.cross_entropy(model(x.to(memory_format=torch.channels_last)), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            cost += loss.item()
        seconds = time.time() - began
        model.eval()
        wrong = count = 0
        with torch.no_grad():
            for x, label in test:
                wrong += (model(x.to(memory_format=torch.channels_last)).argmax(1) != label).sum().item()
                count += len(label)
        print(json.dumps({"epoch": epoch, "cost": cost / len(train), "validation_error": wrong / count, "seconds": seconds}), flush=True)


main()
