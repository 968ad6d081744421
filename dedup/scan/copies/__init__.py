"""Files written once more without their near-duplicates, each in its own format (`--kept`)."""
