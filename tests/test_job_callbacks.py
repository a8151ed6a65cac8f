"""Callbacks that report from the real trainers of Lightning and Transformers, where these are installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from slurmsched.job import lightning_callback, transformers_callback

pytestmark = pytest.mark.filterwarnings("ignore")  # those of other packages
STOP_AT = 3
PACKAGES = {
    name: pytest.mark.skipif(not find_spec(name), reason=f"no {name}") for name in ("lightning", "transformers")
}


class Reports:
    """The reports so far; the answer is a stop from step STOP_AT on."""

    def __init__(self, stop_at: int = STOP_AT) -> None:
        self.stop_at, self.steps, self.losses, self.accuracies, self.noises = stop_at, [], [], [], []

    def __call__(self, step, loss, accuracy, noise=None):
        self.noises.append(None if noise is None else float(noise))
        self.steps.append(step)
        self.losses.append(None if loss is None else float(loss))
        self.accuracies.append(None if accuracy is None else float(accuracy))
        return step >= self.stop_at


def lightning_run(directory: Path, reports: Reports) -> int:
    """Train a line with Lightning; return the steps done."""
    import lightning.pytorch as lightning
    import torch

    class Line(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch, index):
            self.log("right", 0.25)
            self.log("scale", 900.0)
            return ((self.layer(batch[0]) - 1) ** 2).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 1)), batch_size=1)
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    callback = lightning_callback(reports, accuracy="right", noise="scale")
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", callbacks=[callback], default_root_dir=directory, **quiet
    )
    trainer.fit(Line(), data)
    return trainer.global_step


@PACKAGES["lightning"]
def test_lightning_reports_each_step_and_stops_when_the_answer_says_so(tmp_path):
    reports = Reports()
    assert lightning_run(tmp_path, reports) == STOP_AT
    assert reports.steps == [1, 2, 3]
    assert all(loss is not None for loss in reports.losses)
    assert reports.accuracies[1:] == [0.25, 0.25]
    assert reports.noises[1:] == [900.0, 900.0]
    assert lightning_run(tmp_path, Reports(stop_at=100)) == 8


def transformers_run(directory: Path, reports: Reports) -> int:
    """Train a line with Transformers; return the steps done."""
    import torch
    from transformers import Trainer, TrainingArguments

    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x, labels=None):
            out = self.layer(x)
            return {"loss": ((out - labels) ** 2).mean(), "logits": out}

    rows = [{"x": torch.ones(1), "labels": torch.ones(1)} for _ in range(8)]
    arguments = TrainingArguments(
        output_dir=str(directory),
        per_device_train_batch_size=1,
        num_train_epochs=1,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(Line(), arguments, train_dataset=rows, callbacks=[transformers_callback(reports)])
    trainer.train()
    return trainer.state.global_step


@PACKAGES["transformers"]
def test_transformers_reports_each_step_and_saves_and_stops_when_the_answer_says_so(tmp_path):
    reports = Reports()
    assert transformers_run(tmp_path / "short", reports) == STOP_AT
    assert reports.steps == [1, 2, 3]
    assert all(loss is not None for loss in reports.losses[1:])
    assert (tmp_path / "short" / f"checkpoint-{STOP_AT}").is_dir()
    assert transformers_run(tmp_path / "whole", Reports(stop_at=100)) == 8
    assert not list((tmp_path / "whole").glob("checkpoint-*"))


@pytest.mark.parametrize("make", [lightning_callback, transformers_callback])
def test_a_callback_needs_its_package(make):
    name = make.__name__.removesuffix("_callback")
    if find_spec(name) or find_spec(f"pytorch_{name}"):
        assert callable(make(Reports()).on_train_end)
    else:
        with pytest.raises(ImportError, match=name):
            make(Reports())
