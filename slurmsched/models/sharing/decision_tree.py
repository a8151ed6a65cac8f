"""A small, readable decision tree, grown by scikit-learn and evaluated without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...errors import MissingExtra

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

FOLDS = 5  #: parts of the training rows by which the pruning strength is chosen
DEALS = 5  #: repeats of the split into parts, since with few rows one split is a matter of luck


@dataclass(frozen=True)
class Leaf:
    """An end of the tree: the answer, and the number of training rows behind it."""

    value: float
    rows: int


@dataclass(frozen=True)
class Split:
    """A question: is *feature* at most *cut*?"""

    feature: str
    cut: float
    below: Node  #: yes
    above: Node  #: no


Node = Leaf | Split


@dataclass(frozen=True)
class TreeStep:
    """An answered question on the path of a row through a tree."""

    feature: str
    value: float
    cut: float

    @property
    def below(self) -> bool:
        """True if the answer was "at most"."""
        return self.value <= self.cut


def predict(node: Node, columns: Mapping[str, FloatArray]) -> FloatArray:
    """Return the answer for each row."""
    rows = len(next(iter(columns.values())))
    answer = np.empty(rows)
    _fill(node, columns, np.arange(rows, dtype=np.int64), answer)
    return answer


def path(node: Node, row: Mapping[str, float]) -> tuple[list[TreeStep], Leaf]:
    """Return the path of one *row*: its steps and its leaf."""
    steps = []
    while isinstance(node, Split):
        step = TreeStep(node.feature, row[node.feature], node.cut)
        steps.append(step)
        node = node.below if step.below else node.above
    return steps, node


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield the leaves of *node*, from the lowest branch to the highest."""
    if isinstance(node, Leaf):
        yield node
    else:
        yield from leaves(node.below)
        yield from leaves(node.above)


def lines_of(node: Node, indent: str = "") -> list[str]:
    """Return the tree in words, one line per question and answer."""
    if isinstance(node, Leaf):
        return [f"{indent}{node.value:.3g} (of {node.rows} rows)"]
    below, above = (lines_of(one, indent + "  ") for one in (node.below, node.above))
    return [f"{indent}if {node.feature} <= {node.cut:.3g}:", *below, f"{indent}else:", *above]


def document(node: Node) -> dict[str, Any]:
    """Return the tree as JSON values, without loss."""
    if isinstance(node, Leaf):
        return {"value": node.value, "rows": node.rows}
    branches = {"below": document(node.below), "above": document(node.above)}
    return {"feature": node.feature, "cut": node.cut} | branches


def of_document(text: Mapping[str, Any]) -> Node:
    """Rebuild the tree from its `document`. KeyError, TypeError or ValueError where it describes none."""
    if "feature" not in text:
        return Leaf(float(text["value"]), int(text["rows"]))
    return Split(str(text["feature"]), float(text["cut"]), of_document(text["below"]), of_document(text["above"]))


def grow(columns: Mapping[str, FloatArray], score: FloatArray, *, rising: Sequence[str], least: int, seed: int) -> Node:
    """Grow the regression tree of *score*, never falling in the features *rising*, with *least* rows in each leaf.

    It is pruned by minimal cost complexity, with the strength of the least squared error on held-out training rows.
    The same rows and seed give the same tree. ConfigError where scikit-learn is not installed.
    """
    table = np.column_stack([*columns.values()])
    signs = [int(name in rising) for name in columns]
    strengths = _regressor(signs, least, 0.0).cost_complexity_pruning_path(table, score).ccp_alphas
    # Between two strengths of the path the tree stays the same: try one inside each step.
    tried = np.sqrt(np.maximum(strengths[:-1] * strengths[1:], 0.0))
    parts = [fold == held for fold in _deals(score, seed) for held in range(FOLDS)]
    errors = [
        sum(_error(table, score, held, _regressor(signs, least, strength)) for held in parts) for strength in tried
    ]
    best = float(tried[int(np.argmin(errors))]) if errors else 0.0
    fitted = _regressor(signs, least, best).fit(table, score).tree_
    return _node(fitted, 0, list(columns))


def grow_to(columns: Mapping[str, FloatArray], score: FloatArray, *, ends: int, least: int) -> Node:
    """Grow the regression tree of *score* best first to so many *ends*, with *least* rows in each leaf.

    ConfigError where scikit-learn is not installed.
    """
    regressor = _regressor([0] * len(columns), least, 0.0).set_params(max_leaf_nodes=ends)
    return _node(regressor.fit(np.column_stack([*columns.values()]), score).tree_, 0, list(columns))


def _fill(node: Node, columns: Mapping[str, FloatArray], rows: IntArray, answer: FloatArray) -> None:
    if isinstance(node, Leaf):
        answer[rows] = node.value
        return
    below = columns[node.feature][rows] <= node.cut
    _fill(node.below, columns, rows[below], answer)
    _fill(node.above, columns, rows[~below], answer)


def _regressor(signs: list[int], least: int, strength: float) -> DecisionTreeRegressor:
    try:
        from sklearn.tree import DecisionTreeRegressor
    except ImportError as error:
        raise MissingExtra("training a decision tree needs scikit-learn", "learn") from error
    return DecisionTreeRegressor(min_samples_leaf=least, ccp_alpha=strength, monotonic_cst=signs, random_state=0)


def _deals(score: FloatArray, seed: int) -> Iterator[IntArray]:
    """Yield the part of each row, every score spread evenly over the parts."""
    rng = np.random.default_rng(seed)
    for _ in range(DEALS):
        fold = np.empty(len(score), dtype=np.int64)
        fold[np.lexsort((rng.random(len(score)), score))] = np.arange(len(score)) % FOLDS
        yield fold


def _error(table: FloatArray, score: FloatArray, held: BoolArray, regressor: DecisionTreeRegressor) -> float:
    if held.all() or not held.any():
        return 0.0
    predicted = regressor.fit(table[~held], score[~held]).predict(table[held])
    return float(np.square(predicted - score[held]).sum())


def _node(fitted: Any, place: int, names: list[str]) -> Node:
    if fitted.children_left[place] < 0:
        return Leaf(float(fitted.value[place].item()), int(fitted.n_node_samples[place]))
    return Split(
        names[fitted.feature[place]],
        float(fitted.threshold[place]),
        _node(fitted, int(fitted.children_left[place]), names),
        _node(fitted, int(fitted.children_right[place]), names),
    )
