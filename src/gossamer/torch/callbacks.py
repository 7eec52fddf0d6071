"""Decentralized training under Hugging Face's Trainer, Lightning and Accelerate.

Trainers do three things that must not be done here. They wrap the model in DistributedDataParallel, which averages
gradients before a rule sees them. They split data over the ranks again, although each has its own. And they save the
state of rank 0 for all ranks. What stands here turns that off, saves and resumes by `gossamer.torch.save` and `resume`,
and evaluates the mean model of all ranks. Each package is imported when its function is called.
"""

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from gossamer.core import InputError, MissingPackage, brief, whole
from gossamer.torch.checkpoint import resume, save
from gossamer.torch.optimizer import Decentralized
from gossamer.torch.sampler import SplitSampler


def huggingface(trainer: Any, loader: DataLoader[Any]) -> None:
    """Let a Trainer of Hugging Face train by the `Decentralized` that it was given.

        trainer = Trainer(model, arguments, optimizers=(optimizer, scheduler))
        callbacks.huggingface(trainer, loader)
        trainer.train()

    It saves where and as often as its arguments say (`output_dir`, `save_steps`, `save_total_limit`), and goes on from
    there when it is started again. `trainer.evaluate` and `trainer.predict` see the mean model.

    Args:
        trainer: any Trainer, before `train`.
        loader: the batches of this rank, such as ``DataLoader(data, batch_sampler=SplitSampler(data, 32))``. With a
            `SplitSampler`, a run that is resumed goes on at its place in the data.
    """
    transformers = _package("transformers", "callbacks.huggingface")
    optimizer = _check_optimizer([trainer.optimizer], "Trainer(…, optimizers=(optimizer, scheduler))")
    arguments, batches, evaluate = trainer.args, _Batches(loader), trainer.evaluation_loop
    if arguments.load_best_model_at_end or arguments.save_strategy == "best":
        raise InputError(
            "load_best_model_at_end and save_strategy='best' load what rank 0 has into all ranks: leave them out, and "
            "keep the best mean model by trainer.save_model within optimizer.average_model(model)."
        )
    arguments.average_tokens_across_devices = False  # the loss of a rank is its own
    _keep_apart(trainer.accelerator)

    def evaluate_mean(*args: Any, **options: Any) -> Any:
        with optimizer.average_model(trainer.model):
            return evaluate(*args, **options)

    def others(scheduler: Any) -> dict[str, Any]:
        return _name_others(schedulers=[scheduler], scalers=[trainer.accelerator.scaler])

    class TrainerGossip(transformers.TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
            besides = others(parts["lr_scheduler"])
            step = resume(args.output_dir, trainer.model, optimizer, batches.sampler, **besides)
            state.global_step = trainer._globalstep_last_logged = step
            batches.begin(step, over=step >= state.max_steps)

        def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
            if control.should_save:
                what = trainer.model, optimizer, batches.sampler
                how = {"batches": batches.used, "keep": args.save_total_limit or 2}
                save(args.output_dir, state.global_step, *what, **how, **others(parts["lr_scheduler"]))
                control.should_save = False  # or the Trainer would write what rank 0 has

        on_epoch_end = on_step_end

    trainer.get_train_dataloader = lambda: batches
    trainer.evaluation_loop = evaluate_mean
    trainer.add_callback(TrainerGossip())


def lightning(folder: str | Path, every: int = 1000, sampler: SplitSampler | None = None, keep: int = 2) -> Any:
    """Return the callback for a Trainer of Lightning whose module configures a `Decentralized`.

        trainer = Trainer(
            strategy=SingleDeviceStrategy("cpu"), enable_checkpointing=False, max_steps=1000, max_epochs=-1,
            callbacks=[callbacks.lightning("checkpoints", every=100, sampler=sampler)],
        )

    It saves all ranks every so many steps, and goes on from there when the script is started again. Validation and
    tests see the mean model.

    Args:
        folder: where checkpoints go.
        every: how many steps there are between two of them.
        sampler: that of the training data, where it is a `SplitSampler`: its place is saved too.
        keep: how many checkpoints are kept.
    """
    lightning = _package("lightning.pytorch", "callbacks.lightning")
    whole("every", every)

    class LightningGossip(lightning.Callback):
        def __init__(self) -> None:
            self.optimizer: Decentralized | None = None
            self.step = self.used = 0
            self.mean = contextlib.ExitStack()

        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            if not isinstance(trainer.strategy, lightning.strategies.SingleDeviceStrategy):
                raise InputError(
                    f"{type(trainer.strategy).__name__} would wrap the model and average gradients before the rule "
                    'sees them: give Trainer(strategy=SingleDeviceStrategy("cpu")), or f"cuda:{local_rank}", and '
                    "start the processes by torchrun or gossamer launch."
                )
            if stage == "fit" and trainer.checkpoint_callbacks:
                raise InputError(
                    "a checkpoint of Lightning is the same file on every rank: give Trainer(enable_checkpointing=False)"
                    "; this callback saves all ranks."
                )
            if stage == "fit" and trainer.max_steps < 1:
                raise InputError("a run that is resumed counts its steps: give Trainer(max_steps=…, max_epochs=-1).")

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:  # before anything is drawn from the data
            self.optimizer = _check_optimizer(trainer.optimizers, "configure_optimizers")
            self.step = resume(folder, pl_module, self.optimizer, sampler, **self._others(trainer))
            self.used = self.step if sampler is None else sampler.position
            loop = trainer.fit_loop.epoch_loop
            for count in (
                loop.automatic_optimization.optim_progress.optimizer.step,
                loop.manual_optimization.optim_step_progress,
            ):
                count.total.ready = count.total.completed = self.step  # trainer.global_step

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self.used += 1
            before, self.step = self.step, trainer.global_step
            if self.step > before and (self.step % every == 0 or self.step == trainer.max_steps):
                assert self.optimizer is not None  # on_fit_start has set it
                how = {"batches": self.used, "keep": keep}
                save(folder, self.step, pl_module, self.optimizer, sampler, **how, **self._others(trainer))

        def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
            if self.optimizer is not None:  # or else nothing has been trained
                self.mean.enter_context(self.optimizer.average_model(pl_module))

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            self.mean.close()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self.mean.close()

        on_test_start, on_test_end = on_validation_start, on_validation_end

        def _others(self, trainer: Any) -> dict[str, Any]:
            schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
            return _name_others(schedulers=schedulers, scalers=[getattr(trainer.precision_plugin, "scaler", None)])

    return LightningGossip()


def accelerate(accelerator: Any) -> None:
    """Let an Accelerator train by `Decentralized`, in a loop that stays as it was.

        accelerator = Accelerator()
        callbacks.accelerate(accelerator)
        model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
        step = accelerator.load_state(folder)

    `prepare` then wraps no model, leaves a loader with a `SplitSampler` as it is, and lets schedulers step once a step.
    `save_state(folder)` saves all ranks; `load_state(folder)` goes on from there, and returns the number of steps that
    were taken, 0 if there is no checkpoint.
    """
    _package("accelerate", "callbacks.accelerate")
    _keep_apart(accelerator)

    def parts() -> tuple[Any, Decentralized, SplitSampler | None, dict[str, Any]]:
        """Return what was prepared."""
        optimizers, models = [one.optimizer for one in accelerator._optimizers], accelerator._models
        optimizer = _check_optimizer(optimizers, "accelerator.prepare(model, optimizer, …)")
        if len(models) != 1:
            raise InputError(f"accelerator.prepare got {len(models)} models, but one is saved with its optimizer.")
        samplers = filter(None, map(_split_sampler, accelerator._dataloaders))
        schedulers = [one.scheduler for one in accelerator._schedulers]
        others = _name_others(schedulers=schedulers, objects=accelerator._custom_objects, scalers=[accelerator.scaler])
        return models[0], optimizer, next(samplers, None), others

    def save_state(output_dir: str | Path, **_: Any) -> Path:
        model, optimizer, sampler, others = parts()
        used = optimizer.steps * accelerator.gradient_accumulation_steps
        return save(output_dir, optimizer.steps, model, optimizer, sampler, batches=used, **others)

    def load_state(input_dir: str | Path, **_: Any) -> int:
        model, optimizer, sampler, others = parts()
        return resume(input_dir, model, optimizer, sampler, **others)

    accelerator.save_state, accelerator.load_state = save_state, load_state


class _Batches:
    """The batches of a loader, epoch after epoch, from its sampler's place on.

    An epoch of a Trainer has as many batches as the loader, wherever in the data it begins.
    """

    def __init__(self, loader: DataLoader[Any]):
        self.loader, self.dataset, self.sampler = loader, loader.dataset, _split_sampler(loader)
        self.begin(0, over=False)

    def begin(self, step: int, over: bool) -> None:
        """Begin after so many steps; with no batches at all if the run is over."""
        self.used, self.over, self._given = step, over, self._endless()
        if self.sampler is not None:
            self.used = self.sampler.position

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        for _ in range(0 if self.over else len(self)):
            self.used += 1
            yield next(self._given)

    def _endless(self) -> Iterator[Any]:
        while True:
            yield from self.loader


def _keep_apart(accelerator: Any) -> None:
    """Let an Accelerator wrap no model, split no data that are this rank's own, and step schedulers once a step."""
    prepare_model, prepare_optimizer = accelerator.prepare_model, accelerator.prepare_optimizer
    prepare_scheduler, prepare_loader = accelerator.prepare_scheduler, accelerator.prepare_data_loader

    def with_one_step(scheduler: Any) -> Any:
        prepared = prepare_scheduler(scheduler)
        prepared.split_batches = True  # else it takes as many steps as there are processes
        return prepared

    def unless_split(loader: Any, **options: Any) -> Any:
        if _split_sampler(loader) is not None:
            accelerator._dataloaders.append(loader)
            return loader
        return prepare_loader(loader, **options)

    # evaluation_mode wraps in no DistributedDataParallel; mixed precision is as in training
    accelerator.prepare_model = lambda model, **options: prepare_model(model, **options | {"evaluation_mode": True})
    # the optimizer was made where its parameters are: to place its state would begin its round again
    accelerator.prepare_optimizer = lambda optimizer, **_: prepare_optimizer(optimizer, device_placement=False)
    accelerator.prepare_scheduler, accelerator.prepare_data_loader = with_one_step, unless_split


def _check_optimizer(optimizers: list[Any], where: str) -> Decentralized:
    """Return the one optimizer, which must be a `Decentralized`."""
    if len(optimizers) != 1 or not isinstance(optimizers[0], Decentralized):
        raise InputError(
            f"{where} must have one optimizer, which is a Decentralized, but has {brief([*map(type, optimizers)])}."
        )
    return optimizers[0]


def _split_sampler(loader: Any) -> SplitSampler | None:
    sampler = getattr(loader, "batch_sampler", None)
    return sampler if isinstance(sampler, SplitSampler) else None


def _name_others(**others: list[Any]) -> dict[str, Any]:
    """Return what is saved besides model and optimizer, by name."""
    return {f"{kind}{k}": one for kind, some in others.items() for k, one in enumerate(some) if one is not None}


def _package(module: str, wanted: str) -> Any:
    """Return a package that is imported now, or raise `MissingPackage`."""
    name = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != name:
            raise
        raise MissingPackage.of(wanted, name, "or write the loop yourself, as the guide on training shows") from missing
