"""Jobs that train: their progress in rounds under a scaling, at the speeds that were measured."""
