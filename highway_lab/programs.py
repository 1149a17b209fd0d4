"""The command of fully connected nets: `python highway_networks.py`."""

from highway_lab.commands import TrainingCommand
from highway_lab.gradients import check_gradients
from highway_networks import Config

COMMAND = TrainingCommand(
    module="highway_networks",
    description="Train highway and plain networks side by side and log every epoch as JSON.",
    config=Config,
    configure=Config,
    dataset=lambda depth: "mnist",
    fallback=True,
    block="both",
    quick={"depth": 10, "epochs": 5},
    sweep={"depth": [5, 10, 20, 30, 50], "seed": list(range(20))},
    check=check_gradients,
)
main = COMMAND.run
