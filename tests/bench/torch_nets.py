"""The networks of models.h in PyTorch that several benchmarks train: ddp.py on the CPU, torch_gpu.py on a GPU."""
import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


class MnistCNN(nn.Module):  # tensorpack's mnist-convnet
    def __init__(self):
        super().__init__()
        self.c0, self.c1, self.c2, self.c3 = (nn.Conv2d(c, 32, 3, padding=1) for c in (1, 32, 32, 32))
        self.f0, self.f1 = nn.Linear(1568, 512), nn.Linear(512, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c0(x * 2 - 1)), 2)
        x = F.max_pool2d(F.relu(self.c2(F.relu(self.c1(x)))), 2)
        x = F.relu(self.f0(F.relu(self.c3(x)).flatten(1)))
        return self.f1(F.dropout(x, 0.5, self.training))

    def decay(self):
        return 1e-5 * 0.5 * (self.f0.weight.square().sum() + self.f1.weight.square().sum())


class PreactBlock(nn.Module):
    def __init__(self, c_in, c_out, first):
        super().__init__()
        self.wider, self.first, self.pad = c_out > c_in, first, c_in // 2
        self.b0 = nn.Identity() if first else nn.BatchNorm2d(c_in)
        self.c1 = nn.Conv2d(c_in, c_out, 3, 2 if self.wider else 1, 1, bias=False)
        self.b1 = nn.BatchNorm2d(c_out)
        self.c2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)

    def forward(self, x):
        y = self.c2(F.relu(self.b1(self.c1(x if self.first else F.relu(self.b0(x))))))
        if self.wider: x = F.pad(F.avg_pool2d(x, 2), (0, 0, 0, 0, self.pad, self.pad))
        return y + x


class ResNet20(nn.Module):  # tensorpack's cifar10-resnet, n = 3
    def __init__(self):
        super().__init__()
        self.c0, self.b0 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        blocks = []
        for stage in range(3):
            for k in range(3):
                wider = stage > 0 and k == 0
                blocks.append(PreactBlock(16 << stage - wider, 16 << stage, stage == 0 and k == 0))
        self.blocks, self.last, self.fc = nn.Sequential(*blocks), nn.BatchNorm2d(64), nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.b0(self.c0(x * (1 / 128)))))
        return self.fc(F.relu(self.last(x)).mean((2, 3)))
