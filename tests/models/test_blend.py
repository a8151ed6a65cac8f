"""The mixture of the additive model with earlier runs."""

from __future__ import annotations

import numpy as np
import pytest
from outcome_worlds import busy_site, jobs_of

from slurmsched.models.blend import Blend, Part
from slurmsched.models.inputs import CLASSES, classes, inputs, numbers
from slurmsched.models.names import NameBuckets
from slurmsched.models.past import Past


def test_each_class_is_mixed_with_its_own_column_and_the_others_are_left_alone():
    outcomes = busy_site(400)
    columns = inputs(jobs_of(outcomes), Past.of(outcomes), NameBuckets.of({}))
    kinds, model = classes(columns), np.linspace(5.0, 6.0, 400)
    first, second = np.unique(kinds, return_counts=True)[0][[0, -1]].tolist()
    blend = Blend({first: Part("user_last", 0.4), second: Part("task_median", 1.0)})
    mixed = blend.mixed(columns, model)
    for kind, name, share in ((first, "user_last", 0.4), (second, "task_median", 1.0)):
        rows = kinds == kind
        assert mixed[rows] == pytest.approx(share * numbers(columns, name)[rows] + (1 - share) * model[rows])
    rest = ~np.isin(kinds, (first, second))
    assert rest.any()
    assert np.array_equal(mixed[rest], model[rest])


def test_where_there_is_no_run_to_repeat_the_model_speaks_alone():
    outcomes = busy_site(50)
    columns = inputs(jobs_of(outcomes), Past.of(outcomes.take(slice(0, 0))), NameBuckets.of({}))
    model = np.linspace(5.0, 6.0, 50)
    assert np.array_equal(Blend({0: Part("user_last", 1.0)}).mixed(columns, model), model)


def test_a_mixture_of_a_class_that_is_none_is_refused():
    with pytest.raises(ValueError, match="classes 0 to"):
        Blend.of_document({str(CLASSES): {"column": "user_last", "share": 0.5}})
